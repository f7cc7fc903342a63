package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/hearthd/hearth/model"
)

// PlacingFlags are the flags by which every kind of application says with whom
// it waits and where its executors may go, and what each of them needs besides.
type PlacingFlags struct {
	fs           *pflag.FlagSet
	queue        string
	minExecutors int
	require      []string
	prefer       []string
	resources    []string
}

// BindPlacingFlags adds them to a command. what is what one executor is called
// there.
func BindPlacingFlags(fs *pflag.FlagSet, what string) *PlacingFlags {
	f := &PlacingFlags{fs: fs}
	fs.StringVar(&f.queue, "queue", "", "queue to wait in (default: "+model.QueueDefault+")")
	fs.IntVar(&f.minExecutors, "min-executors", 0, "begin with so many at once or not at all (default: any number will do)")
	fs.StringArrayVar(&f.require, "require", nil, "label that a worker must have, NAME=VALUE (repeatable)")
	fs.StringArrayVar(&f.prefer, "prefer", nil, "label that is preferred between workers that are equally good, NAME=VALUE (repeatable)")
	fs.StringArrayVar(&f.resources, "resource", nil, "named resource of each "+what+", NAME=AMOUNT (repeatable)")
	return f
}

// Apply puts what was given over what there is, and reports every problem; errors
// wrap model.ErrInvalid.
func (f *PlacingFlags) Apply(p *model.Placing, resources *map[string]int) error {
	var errs []error
	if f.fs.Changed("queue") {
		p.Queue = f.queue
		if err := model.ValidQueueName(f.queue); err != nil {
			errs = append(errs, fmt.Errorf("--queue: %w", err))
		}
	}
	if f.fs.Changed("min-executors") {
		p.MinExecutors = f.minExecutors
		if f.minExecutors < 1 || f.minExecutors > model.MaxGang {
			errs = append(errs, fmt.Errorf("--min-executors %d: %w: must be between 1 and %d", f.minExecutors, model.ErrInvalid, model.MaxGang))
		}
	}
	var err error
	if len(f.require) > 0 {
		if p.Require, err = parseLabels("--require", f.require); err != nil {
			errs = append(errs, err)
		}
	}
	if len(f.prefer) > 0 {
		if p.Prefer, err = parseLabels("--prefer", f.prefer); err != nil {
			errs = append(errs, err)
		}
	}
	if len(f.resources) > 0 {
		if *resources, err = ParseAmounts(f.resources); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func parseLabels(flag string, list []string) (map[string]string, error) {
	out := make(map[string]string, len(list))
	for _, l := range list {
		name, value, ok := strings.Cut(l, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s %q: %w: want NAME=VALUE", flag, clip(l), model.ErrInvalid)
		}
		if old, twice := out[name]; twice && old != value {
			return nil, fmt.Errorf("%s %q: %w: a worker has one value of a label, and %q was asked for already", flag, clip(l), model.ErrInvalid, clip(old))
		}
		out[name] = value
	}
	return out, nil
}

// ParseAmounts reads NAME=AMOUNT for each resource; errors wrap model.ErrInvalid.
func ParseAmounts(list []string) (map[string]int, error) {
	out := make(map[string]int, len(list))
	for _, r := range list {
		name, amount, ok := strings.Cut(r, "=")
		n, err := strconv.Atoi(amount)
		if !ok || name == "" || err != nil || n < 1 || n > model.MaxAddresses {
			return nil, fmt.Errorf("--resource %q: %w: want NAME=AMOUNT with an amount from 1 to %d", clip(r), model.ErrInvalid, model.MaxAddresses)
		}
		out[name] = n
	}
	return out, nil
}
