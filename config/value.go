package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearthd/hearth/model"
)

// shape is the form of a value in HCL.
type shape int

const (
	scalar  shape = iota // one string, number or boolean
	list                 // a list of strings
	mapping              // an object, or a list of "name=value"
)

// value is the typed end of a key: it parses texts into the configuration it was
// bound to. Whatever the source, a scalar is one text, a list its elements, a
// mapping its "name=value" pairs.
type value struct {
	kind  string // shown in help and in errors: "string", "int", …
	shape shape
	// separator splits an environment variable; flags of lists too.
	separator string
	// set parses and stores; its error is the rule alone.
	set func(parts []string) error
	// text is the present value, as a flag would give it.
	text func() string
}

// scalarValue makes a value of one text.
func scalarValue(kind string, set func(string) error, text func() string) value {
	return value{kind: kind, shape: scalar, text: text, set: func(parts []string) error { return set(parts[0]) }}
}

func stringValue(p *string) value {
	return scalarValue("string", func(s string) error { *p = s; return nil }, func() string { return *p })
}

func enumValue(p *string, allowed ...string) value {
	return scalarValue("string", func(s string) error {
		if !slices.Contains(allowed, s) {
			return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
		}
		*p = s
		return nil
	}, func() string { return *p })
}

func boolValue(p *bool) value {
	return scalarValue("bool", func(s string) error {
		v, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("must be true or false")
		}
		*p = v
		return nil
	}, func() string { return strconv.FormatBool(*p) })
}

func intValue(p *int, low, high int) value {
	return scalarValue("int", func(s string) error {
		v, err := strconv.Atoi(s)
		if err != nil || v < low || v > high {
			return fmt.Errorf("must be a whole number between %d and %d", low, high)
		}
		*p = v
		return nil
	}, func() string { return strconv.Itoa(*p) })
}

// portValue is a TCP or UDP port; 0 lets the kernel choose.
func portValue(p *int) value {
	v := intValue(p, 0, maxPort)
	set := v.set
	v.set = func(parts []string) error {
		if set(parts) != nil {
			return fmt.Errorf("must be a port between 1 and %d, or 0 to let the kernel choose", maxPort)
		}
		return nil
	}
	return v
}

func durationValue(p *time.Duration, low, high time.Duration) value {
	return scalarValue("duration", func(s string) error {
		v, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("must be a duration with a unit, such as %s", low)
		}
		if v < low || v > high {
			return fmt.Errorf("must be between %s and %s", low, high)
		}
		*p = v
		return nil
	}, func() string { return p.String() })
}

// memoryValue is a size; zero is written as an empty text in help, because it
// means "what the machine has".
func memoryValue(p *int64) value {
	return scalarValue("size", func(s string) error {
		v, err := parseMemory(s)
		if err != nil {
			return err
		}
		*p = v
		return nil
	}, func() string {
		if *p == 0 {
			return ""
		}
		return FormatMemory(*p)
	})
}

// addressesValue is a list of "host" or "host:port"; the default port is added.
func addressesValue(p *[]string, defaultPort int) value {
	return value{
		kind: "addresses", shape: list, separator: ",",
		set: func(parts []string) error {
			if len(parts) > maxAddresses {
				return fmt.Errorf("must be at most %d addresses", maxAddresses)
			}
			out := make([]string, 0, len(parts))
			for _, part := range parts {
				addr, err := HostPort(part, defaultPort)
				if err != nil {
					return err
				}
				out = append(out, addr)
			}
			*p = out
			return nil
		},
		text: func() string { return strings.Join(*p, ",") },
	}
}

// pairsValue is a mapping of "name=value" pairs that keep parses and stores.
func pairsValue(kind, separator string, keep func(parts []string) error) value {
	return value{kind: kind, shape: mapping, separator: separator, set: keep, text: func() string { return "" }}
}

// shareValue is a share between 0 and 1, kept in thousandths.
func shareValue(p *int) value {
	return scalarValue("number", func(s string) error {
		milli, err := model.ParseShare(s)
		if err != nil {
			return errors.New("must be a number between 0 and 1, with three decimals at most")
		}
		*p = milli
		return nil
	}, func() string { return model.FormatShare(*p) })
}

// milliValue is a duration, kept in ms.
func milliValue(p *int64, high int64) value {
	return scalarValue("duration", func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d.Milliseconds() > high {
			return fmt.Errorf("must be a duration between 0 and %s, with a unit, such as 5m", model.FormatMilli(high))
		}
		*p = d.Milliseconds()
		return nil
	}, func() string { return model.FormatMilli(*p) })
}

// queuesValue is a list of queues as model.ParseQueue reads them.
func queuesValue(p *[]model.Queue) value {
	return value{
		kind: "queues", shape: list, separator: ";",
		set: func(parts []string) error {
			if len(parts) > model.MaxQueues {
				return fmt.Errorf("must be at most %d queues", model.MaxQueues)
			}
			qs, err := model.ParseQueues(strings.Join(parts, ";"))
			if err != nil {
				return err
			}
			s := model.DefaultSettings()
			s.Queues = qs
			if err := s.Validate(); err != nil {
				return err
			}
			*p = qs
			return nil
		},
		text: func() string { return model.FormatQueues(*p) },
	}
}
