package config

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/hearthd/hearth/model"
)

// maxMemoryText bounds the text of a size.
const maxMemoryText = 32

// kibPer maps a unit, in lower case, to KiB. Units are binary whatever their
// spelling, as in Spark; a number without one is in MiB.
func kibPer(unit string) (int64, bool) {
	switch unit {
	case "k", "kb", "kib":
		return 1, true
	case "", "m", "mb", "mib":
		return 1 << 10, true
	case "g", "gb", "gib":
		return 1 << 20, true
	case "t", "tb", "tib":
		return 1 << 30, true
	default:
		return 0, false
	}
}

// ParseMemory parses a size such as "512m", "4g" or "1.5GiB" and returns it in
// MiB, rounded down. k, m, g and t, with b or ib behind or not, in either case,
// are powers of 1024; a bare number is in MiB. Blanks around the text and before
// the unit are allowed. An empty text, a sign, an unknown unit, a size above
// model.MaxMemoryMiB and a size above zero but below 1 MiB are errors.
func ParseMemory(text string) (mib int64, err error) {
	mib, err = parseMemory(text)
	if err != nil {
		return 0, fmt.Errorf("parse memory %q: %w", clip(text), err)
	}
	return mib, nil
}

// parseMemory is ParseMemory with the rule alone as its error.
func parseMemory(text string) (mib int64, err error) {
	fail := func(rule string) (int64, error) { return 0, errors.New(rule) }
	s := strings.TrimSpace(text)
	switch {
	case s == "":
		return fail("must be a size such as 512m or 4g")
	case len(s) > maxMemoryText:
		return fail("too long for a size")
	case s[0] == '-':
		return fail("must not be negative")
	}
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	digits, unit := s[:end], strings.ToLower(strings.TrimSpace(s[end:]))
	kib, ok := kibPer(unit)
	if !ok {
		return fail("unknown unit: use k, m, g or t, as in 512m, 4g or 1.5GiB")
	}
	if digits == "" || digits[0] == '.' || digits[len(digits)-1] == '.' || strings.Count(digits, ".") > 1 {
		return fail("must begin with a number, as in 512m, 4g or 1.5GiB")
	}
	size, ok := new(big.Rat).SetString(digits)
	if !ok {
		return fail("must begin with a number, as in 512m, 4g or 1.5GiB")
	}
	size.Mul(size, big.NewRat(kib, 1<<10))
	whole := new(big.Int).Quo(size.Num(), size.Denom())
	switch {
	case whole.Cmp(big.NewInt(model.MaxMemoryMiB)) > 0:
		return fail(fmt.Sprintf("too large: the limit is %d MiB", int64(model.MaxMemoryMiB)))
	case whole.Sign() == 0 && size.Sign() > 0:
		return fail("must be at least 1 MiB")
	}
	return whole.Int64(), nil
}

// FormatMemory returns a size in MiB as ParseMemory reads it, in the largest
// unit that is exact.
func FormatMemory(mib int64) string {
	switch {
	case mib != 0 && mib%(1<<20) == 0:
		return fmt.Sprintf("%dt", mib>>20)
	case mib != 0 && mib%(1<<10) == 0:
		return fmt.Sprintf("%dg", mib>>10)
	default:
		return fmt.Sprintf("%dm", mib)
	}
}

// clip shortens a text for an error message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
