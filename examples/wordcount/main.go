// Command wordcount counts the words of texts on the executors of a Hearth
// cluster, with a shuffle by hash between two rounds of calls:
//
//	go build ./examples/wordcount && ./wordcount --masters m1:7070 --top 20 *.txt
//
// In the first round each call counts the words of one piece of the text and splits
// what it has found by the hash of the word, one part for each call of the second
// round. In the second round each call adds up one part of everything, so every word
// is counted in exactly one place.
//
// Between the rounds the parts lie with the driver, which hands them out as broadcast
// values. An executor that is lost takes nothing along: the pieces on which it worked
// are counted again elsewhere, what it has already counted is with the driver, and
// the calls of the second round fetch their parts from there wherever they run. The
// price is that everything passes through the driver twice; what is counted is
// small beside the text, so it is a low one here. Its alternative, parts that stay
// on the executors' disks, has to find out which of them went with an executor, and
// to count those pieces again.
//
// With --add-memory the second round has an executor of its own with that much memory:
// leave room for it, as with --executors 2.
package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearthd/hearth/driver"
)

func main() { os.Exit(driver.Main(setup)) }

// texts are what is counted when no file is named.
//
//go:embed text/*.txt
var texts embed.FS

// counts says how often each word was seen.
type counts map[string]int

// piece is the argument of the first round.
type piece struct {
	Text  string
	Parts int
}

// program is the program with its flags and functions.
type program struct {
	top       int
	parts     int
	pieceSize int
	addMemory int64

	count driver.Func[piece, []counts]
	add   driver.Func[driver.Ref[[]counts], counts]
}

func setup(p *driver.Program) {
	var w program
	p.Name = "wordcount"
	p.Flags().IntVar(&w.top, "top", 10, "print so many of the most frequent words; 0 = all")
	p.Flags().IntVar(&w.parts, "parts", 8, "number of calls that add up")
	p.Flags().IntVar(&w.pieceSize, "piece", 64<<10, "bytes of text in one call")
	p.Flags().Int64Var(&w.addMemory, "add-memory", 0, "MiB of memory of the executor that adds up; 0 = those that count do it")
	w.count = driver.Register(p, "count", countWords)
	w.add = driver.Register(p, "add", addUp)
	p.Configure(func() error {
		if w.parts < 1 || w.parts > 1000 || w.pieceSize < 1 || w.pieceSize > 1<<20 {
			return fmt.Errorf("--parts %d, --piece %d: want 1 to 1000 parts and pieces of 1 byte to 1 MiB", w.parts, w.pieceSize)
		}
		if w.addMemory < 0 {
			return fmt.Errorf("--add-memory %d: want 0 or more", w.addMemory)
		}
		return nil
	})
	p.Run(w.run)
}

func (w *program) run(ctx context.Context, app *driver.App) error {
	var pieces []piece
	err := readTexts(app.Args(), func(text string) {
		for t := range split(text, w.pieceSize) {
			pieces = append(pieces, piece{Text: t, Parts: w.parts})
		}
	})
	if err != nil {
		return err
	}
	// First round: parts[h] gets, from each piece, the words whose hash is h.
	parts := make([][]counts, w.parts)
	done := 0
	for i, r := range driver.Stream(ctx, app, w.count, slices.Values(pieces)) {
		if r.Err != nil {
			return fmt.Errorf("piece %d: %w", i, r.Err)
		}
		for h, c := range r.Value {
			parts[h] = append(parts[h], c)
		}
		done++
		app.Logger().Info("a piece is counted", "done", done, "of", len(pieces), "executor", int(r.Executor))
	}
	total, err := w.reduce(ctx, app, parts)
	if err != nil {
		return err
	}
	return printWords(total, w.top)
}

// reduce is the second round.
func (w *program) reduce(ctx context.Context, app *driver.App, parts [][]counts) (counts, error) {
	refs := make([]driver.Ref[[]counts], len(parts))
	for h, part := range parts {
		b, err := driver.NewBroadcast(app, part)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", h, err)
		}
		defer b.Release()
		refs[h] = b.Ref()
	}
	adders, err := w.adders(ctx, app)
	if err != nil {
		return nil, err
	}
	total := make(counts)
	for h, r := range driver.Stream(ctx, app, w.add, slices.Values(refs), driver.WithProfile(adders)) {
		if r.Err != nil {
			return nil, fmt.Errorf("part %d: %w", h, r.Err)
		}
		for word, n := range r.Value {
			if total[word] != 0 {
				return nil, fmt.Errorf("word %q was counted in two parts", word)
			}
			total[word] = n
		}
		app.Logger().Info("a part is added up", "part", h, "executor", int(r.Executor))
	}
	return total, nil
}

// adders is the size of executors of the second round; nil = that of the first.
func (w *program) adders(ctx context.Context, app *driver.App) (*driver.Profile, error) {
	if w.addMemory == 0 {
		return nil, nil //nolint:nilnil // nil is the program's own size
	}
	p, err := app.NewProfile(ctx, driver.ProfileSpec{Cores: 1, MemoryMiB: w.addMemory})
	if err != nil {
		return nil, err
	}
	return p, p.SetExecutors(ctx, 1)
}

// printWords writes the words, the most frequent first.
func printWords(total counts, top int) error {
	words := slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		return cmp.Or(total[b]-total[a], strings.Compare(a, b))
	})
	if top > 0 {
		words = words[:min(top, len(words))]
	}
	for _, word := range words {
		if _, err := fmt.Printf("%7d %s\n", total[word], word); err != nil {
			return err
		}
	}
	return nil
}

// countWords counts the words of a piece and splits them by their hashes.
func countWords(_ context.Context, p piece) ([]counts, error) {
	parts := make([]counts, p.Parts)
	for i := range parts {
		parts[i] = make(counts)
	}
	for word := range words(p.Text) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word)) // never fails
		parts[h.Sum32()%uint32(p.Parts)][word]++
	}
	return parts, nil
}

// addUp adds up what all pieces have found of one part.
func addUp(ctx context.Context, ref driver.Ref[[]counts]) (counts, error) {
	found, err := ref.Get(ctx)
	if err != nil {
		return nil, err
	}
	sum := make(counts)
	for _, c := range found {
		for word, n := range c {
			sum[word] += n
		}
	}
	return sum, nil
}

// words yields what is between everything that is neither letter nor digit, in
// lower case.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if !yield(strings.ToLower(w)) {
				return
			}
		}
	}
}

// split cuts a text into pieces of about size bytes, at the end of a word.
func split(text string, size int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			end := min(size, len(text))
			for end < len(text) {
				r, n := utf8.DecodeRuneInString(text[end:])
				if utf8.RuneStart(text[end]) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
					break
				}
				end += n
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// readTexts hands over the files, or the texts that come with the program.
func readTexts(files []string, take func(string)) error {
	if len(files) == 0 {
		return fs.WalkDir(texts, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := texts.ReadFile(path)
			take(string(text))
			return err
		})
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("read a text: %w", err)
		}
		take(string(text))
	}
	return nil
}
