package config

import "fmt"

// maxSuggestName bounds the names that are compared; the cost is quadratic.
const maxSuggestName = 64

// didYouMean names the candidate nearest to name, or nothing if none is near.
func didYouMean(name string, candidates []string) string {
	best, least := "", len(name)/3+2
	for _, c := range candidates {
		if d := distance(name, c); d < least {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is the number of single-byte edits between two names (Levenshtein).
func distance(a, b string) int {
	if len(a) > maxSuggestName || len(b) > maxSuggestName {
		return maxSuggestName
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
