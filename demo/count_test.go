package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestCountsAreThoseOfWC(t *testing.T) {
	for _, tc := range []struct {
		name string
		text string
		want Counts
	}{
		{"an empty file has nothing", "", Counts{}},
		{"a line ends with a newline", "one two\nthree\n", Counts{Lines: 2, Words: 3, Bytes: 14}},
		{"a last line without an end is no line", "one\ntwo", Counts{Lines: 1, Words: 2, Bytes: 7}},
		{"white space alone has no words", " \t\r\n\v\f \n", Counts{Lines: 2, Bytes: 8}},
		{"white space beyond ASCII divides words", "a\u00a0b\u2003c\u0085d", Counts{Words: 4, Bytes: 11}},
		{"bytes that are no UTF-8 belong to words", "a\xffb \xc3", Counts{Words: 2, Bytes: 5}},
		{"NUL belongs to words", "a\x00b", Counts{Words: 1, Bytes: 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			streamed, err := countStream(iotest.OneByteReader(strings.NewReader(tc.text)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, streamed); diff != "" {
				t.Errorf("streamed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, expectedCounts([]byte(tc.text))); diff != "" {
				t.Errorf("plain (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzBothWaysOfCountingAgree(f *testing.F) {
	for _, s := range []string{"", "a b\n", "a\u00a0b\xff\n\n", strings.Repeat("x", 70_000) + " y"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := countStream(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expectedCounts(data), got); diff != "" {
			t.Errorf("(-plain +streamed):\n%s", diff)
		}
	})
}

func FuzzOutputOfTasksIsRead(f *testing.F) {
	f.Add([]byte("1 2 3 \"/a\"\n"), "/a")
	f.Add([]byte("1 2 3 \"/a\""), "/a")
	f.Add([]byte("-1 2 3 \"/a\"\n"), "/a")
	f.Add([]byte("1 2\n"), "/a b\nc")
	f.Fuzz(func(t *testing.T, out []byte, path string) {
		counts, err := parseCounts(out, []string{path})
		if err == nil && len(counts) != 1 {
			t.Errorf("got %d counts without an error, want 1", len(counts))
		}
	})
}

func TestTheOutputOfATaskIsReadBack(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "plain"), filepath.Join(dir, "with space\nand newline")}
	for n, text := range []string{"one two\n", "drei"} {
		if err := os.WriteFile(paths[n], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := CountFiles(&out, paths); err != nil {
		t.Fatal(err)
	}
	got, err := parseCounts(out.Bytes(), paths)
	if err != nil {
		t.Fatal(err)
	}
	want := []Counts{{Lines: 1, Words: 2, Bytes: 8}, {Words: 1, Bytes: 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, bad := range map[string]string{
		"lines are missing":      strings.SplitAfter(out.String(), "\n")[0],
		"the end is cut off":     strings.TrimSuffix(out.String(), "\n"),
		"another file is named":  strings.Replace(out.String(), "plain", "plane", 1),
		"a count is no number":   strings.Replace(out.String(), "1 2", "x 2", 1),
		"a count is negative":    strings.Replace(out.String(), "1 2", "-1 2", 1),
		"there are only numbers": "1 2 3\n4 5 6\n",
	} {
		if _, err := parseCounts([]byte(bad), paths); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := CountFiles(&out, []string{filepath.Join(dir, "missing")}); err == nil {
		t.Error("a missing file was counted")
	}
}
