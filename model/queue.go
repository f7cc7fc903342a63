package model

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// QueueDefault is the queue of applications that name none. It is always
// there, with priority 0, weight 1 and no cap unless it is configured.
const QueueDefault = "default"

// Limits of queues.
const (
	// MaxQueues bounds the configured queues.
	MaxQueues = 64
	// MaxQueueNameBytes bounds the name of a queue.
	MaxQueueNameBytes = 64
	// MaxQueueWeight bounds a weight; used cores times a weight must not
	// overflow.
	MaxQueueWeight = 1 << 20
	// MaxQueuePriority bounds a priority, to either side of 0.
	MaxQueuePriority = 1 << 20
)

// Queue is a share of the cluster that applications are submitted to (ADR
// 0033). Queues are served by priority, highest first, then by used cores over
// weight, least first, then by name; applications of one queue by
// registration.
type Queue struct {
	Name     string
	Weight   int // 1 or more
	Priority int
	// CapCores bounds the cores that the executors of its applications hold
	// together; 0 = no limit.
	CapCores int
}

// Compare orders queues of which usedQ and usedO cores are held: the one that
// is to be served first is the smaller.
func (q Queue) Compare(usedQ int, o Queue, usedO int) int {
	return cmp.Or(
		cmp.Compare(o.Priority, q.Priority),
		cmp.Compare(int64(usedQ)*int64(o.Weight), int64(usedO)*int64(q.Weight)),
		strings.Compare(q.Name, o.Name),
	)
}

// Validate checks a queue; wraps ErrInvalid.
func (q Queue) Validate() error {
	var errs []error
	if err := ValidQueueName(q.Name); err != nil {
		errs = append(errs, err)
	}
	if q.Weight < 1 || q.Weight > MaxQueueWeight {
		errs = append(errs, fmt.Errorf("%w: queue %q: weight %d: must be between 1 and %d", ErrInvalid, q.Name, q.Weight, MaxQueueWeight))
	}
	if q.Priority < -MaxQueuePriority || q.Priority > MaxQueuePriority {
		errs = append(errs, fmt.Errorf("%w: queue %q: priority %d: must be between %d and %d", ErrInvalid, q.Name, q.Priority, -MaxQueuePriority, MaxQueuePriority))
	}
	if q.CapCores < 0 || q.CapCores > MaxTotalCores {
		errs = append(errs, fmt.Errorf("%w: queue %q: cap_cores %d: must be between 0 (no limit) and %d", ErrInvalid, q.Name, q.CapCores, MaxTotalCores))
	}
	return errors.Join(errs...)
}

// ValidQueueName checks the name of a queue: letters, digits, '-', '_' and
// '.', so that it needs no quotes anywhere. Wraps ErrInvalid.
func ValidQueueName(name string) error {
	if name == "" || len(name) > MaxQueueNameBytes {
		return fmt.Errorf("%w: queue %q: a name has 1 to %d bytes", ErrInvalid, name, MaxQueueNameBytes)
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return fmt.Errorf("%w: queue %q: a name holds letters, digits, '-', '_' and '.'", ErrInvalid, name)
		}
	}
	return nil
}

// QueueName is the queue of the application.
func (s AppSpec) QueueName() string { return cmp.Or(s.Queue, QueueDefault) }

// Queue finds a queue by name. One that is not configured, because it is the
// default or because its configuration has gone since an application was
// submitted to it, has priority 0, weight 1 and no cap.
func (s Settings) Queue(name string) Queue {
	for _, q := range s.Queues {
		if q.Name == name {
			return q
		}
	}
	return Queue{Name: name, Weight: 1}
}

// HasQueue reports whether applications may be submitted to a queue.
func (s Settings) HasQueue(name string) bool {
	return name == QueueDefault || slices.ContainsFunc(s.Queues, func(q Queue) bool { return q.Name == name })
}

// QueueNames are the names of all queues, the default one first.
func (s Settings) QueueNames() []string {
	names := []string{QueueDefault}
	for _, q := range s.Queues {
		if q.Name != QueueDefault {
			names = append(names, q.Name)
		}
	}
	return names
}

// ParseQueues reads queues as operators write them: entries separated by ';',
// each a name and what differs from the default, separated by ','. For
// example "prod,priority=10,weight=3,cap_cores=64;batch". The empty text is no
// queue. The result is sorted by name; errors wrap ErrInvalid.
func ParseQueues(text string) ([]Queue, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var out []Queue
	for entry := range strings.SplitSeq(text, ";") {
		q, err := ParseQueue(entry)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return SortQueues(out), nil
}

// ParseQueue reads one entry of ParseQueues.
func ParseQueue(entry string) (Queue, error) {
	name, rest, more := strings.Cut(entry, ",")
	q := Queue{Name: strings.TrimSpace(name), Weight: 1}
	if err := ValidQueueName(q.Name); err != nil {
		return Queue{}, err
	}
	seen := make(map[string]bool)
	for more {
		var field string
		field, rest, more = strings.Cut(rest, ",")
		key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return Queue{}, fmt.Errorf("%w: queue %q: %q: want weight=N, priority=N or cap_cores=N", ErrInvalid, q.Name, field)
		}
		if seen[key] {
			return Queue{}, fmt.Errorf("%w: queue %q: %s is given twice", ErrInvalid, q.Name, key)
		}
		seen[key] = true
		switch key {
		case "weight":
			q.Weight = n
		case "priority":
			q.Priority = n
		case "cap_cores":
			q.CapCores = n
		default:
			return Queue{}, fmt.Errorf("%w: queue %q: %q: want weight=N, priority=N or cap_cores=N", ErrInvalid, q.Name, field)
		}
	}
	return q, nil
}

// SortQueues sorts by name, in place, and returns the list: equal sets of
// queues are equal lists.
func SortQueues(qs []Queue) []Queue {
	slices.SortFunc(qs, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	return qs
}

// String is the queue as ParseQueue reads it.
func (q Queue) String() string {
	var b strings.Builder
	b.WriteString(q.Name)
	if q.Weight != 1 {
		fmt.Fprintf(&b, ",weight=%d", q.Weight)
	}
	if q.Priority != 0 {
		fmt.Fprintf(&b, ",priority=%d", q.Priority)
	}
	if q.CapCores != 0 {
		fmt.Fprintf(&b, ",cap_cores=%d", q.CapCores)
	}
	return b.String()
}

// FormatQueues is the inverse of ParseQueues.
func FormatQueues(qs []Queue) string {
	entries := make([]string, len(qs))
	for i, q := range qs {
		entries[i] = q.String()
	}
	return strings.Join(entries, ";")
}

// Thousandths turns a share between 0 and 1 into thousandths; wraps
// ErrInvalid for what is not one.
func Thousandths(share float64) (int, error) {
	milli := math.Round(share * 1000)
	if !(share >= 0 && share <= 1) || math.Abs(share*1000-milli) > 1e-6 {
		return 0, fmt.Errorf("%w: share %v: must be between 0 (no limit) and 1, with three decimals at most", ErrInvalid, share)
	}
	return int(milli), nil
}

// ParseShare is Thousandths of a number in words.
func ParseShare(text string) (int, error) {
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: share %q: must be a number between 0 (no limit) and 1", ErrInvalid, text)
	}
	return Thousandths(share)
}

// FormatShare is the inverse of ParseShare.
func FormatShare(milli int) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }
