package config

import (
	"strings"
	"testing"
)

func TestParseMemory(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int64
		err  string
	}{
		{in: "512m", want: 512},
		{in: "512", want: 512},
		{in: "4g", want: 4096},
		{in: "4G", want: 4096},
		{in: "4gb", want: 4096},
		{in: "4 GiB", want: 4096},
		{in: "1.5GiB", want: 1536},
		{in: "1.3g", want: 1331},
		{in: "2t", want: 2 << 20},
		{in: "2048k", want: 2},
		{in: "1535k", want: 1},
		{in: " 7MiB ", want: 7},
		{in: "0", want: 0},
		{in: "0g", want: 0},
		{in: "64t", want: 64 << 20},
		{in: "", err: "must be a size"},
		{in: "  ", err: "must be a size"},
		{in: "-1g", err: "must not be negative"},
		{in: "+1g", err: "unknown unit"},
		{in: "g", err: "must begin with a number"},
		{in: ".5g", err: "must begin with a number"},
		{in: "5.g", err: "must begin with a number"},
		{in: "1.2.3g", err: "must begin with a number"},
		{in: "1x", err: "unknown unit"},
		{in: "1gg", err: "unknown unit"},
		{in: "1e9g", err: "unknown unit"},
		{in: "0x10", err: "unknown unit"},
		{in: "1,5g", err: "unknown unit"},
		{in: "１g", err: "unknown unit"},
		{in: "512k", err: "at least 1 MiB"},
		{in: "65t", err: "too large"},
		{in: "99999999999999999999999t", err: "too large"},
		{in: strings.Repeat("9", 33), err: "too long"},
	} {
		got, err := ParseMemory(test.in)
		if got != test.want || (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
			t.Errorf("ParseMemory(%q): got %d and error %v, want %d and error %q", test.in, got, err, test.want, test.err)
		}
	}
}

func TestFormatMemoryIsReadBack(t *testing.T) {
	for _, mib := range []int64{0, 1, 512, 1023, 1024, 1536, 4096, 1 << 20, 3 << 20, 1<<20 + 1024} {
		got, err := ParseMemory(FormatMemory(mib))
		if err != nil || got != mib {
			t.Errorf("%d MiB as %q: got %d and error %v", mib, FormatMemory(mib), got, err)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"512m", "1.5GiB", "", "-1", "9999999999t", "1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mib, err := ParseMemory(s)
		if err != nil {
			return
		}
		if again, err := ParseMemory(FormatMemory(mib)); err != nil || again != mib {
			t.Errorf("%q is %d MiB, read back as %d with error %v", s, mib, again, err)
		}
	})
}
