package history

import (
	"fmt"
	"slices"
)

// Held is one application in the state of one replica. Its name is the key.
type Held struct {
	App   string
	Ended bool
}

// Compare judges the state of one replica, read after the last operation has
// returned: names maps each key to what the replica holds under that name, each
// application once. Every acknowledged registration must be there with its id
// and every acknowledged kill must have ended its application; nothing may be
// there twice, or without a registration that may have taken effect. The
// violations come sorted.
func Compare(ops []Operation, names map[string][]Held) []string {
	var found []string
	may := map[string]bool{}
	for _, op := range ops {
		if op.Kind == Register && (op.Outcome == Done || op.Outcome == Unknown) {
			may[op.Key] = true
		}
		if op.Outcome != Done || (op.Kind != Register && op.Kind != Kill) {
			continue
		}
		id := op.App
		if op.Kind == Register {
			id = op.GotApp
		}
		at := slices.IndexFunc(names[op.Key], func(h Held) bool { return h.App == id })
		switch {
		case at < 0:
			found = append(found, fmt.Sprintf("%s: the acknowledged application %s is lost (%s)", op.Key, id, op))
		case op.Kind == Kill && !names[op.Key][at].Ended:
			found = append(found, fmt.Sprintf("%s: the acknowledged kill of %s is lost (%s)", op.Key, id, op))
		}
	}
	for key, held := range names {
		if len(held) > 1 {
			found = append(found, fmt.Sprintf("%s is there %d times: %v", key, len(held), held))
		}
		if !may[key] {
			found = append(found, fmt.Sprintf("%s is there, but nobody can have registered it", key))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
