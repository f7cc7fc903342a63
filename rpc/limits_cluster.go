package rpc

import (
	"fmt"
	"math"

	"github.com/hearthd/hearth/model"
)

// maxNumber is the largest id of an executor or a profile, and the largest
// total, that the log can carry. Calls carry larger ones: cut to fit, they would
// name another executor.
const maxNumber = math.MaxInt32

// Validate checks that the request means in the log what it means here; errors
// wrap model.ErrInvalid. Whether the executors exist is for the state to say.
func (r KillExecutorsRequest) Validate() error {
	for _, id := range r.Executors {
		if id < 0 || id > maxNumber {
			return fmt.Errorf("%w: executor %d: ids are between 0 and %d", model.ErrInvalid, id, maxNumber)
		}
	}
	return nil
}

// Validate checks that the request means in the log what it means here; errors
// wrap model.ErrInvalid. Whether the profiles exist is for the state to say.
func (r SetTargetsRequest) Validate() error {
	for id, n := range r.Totals {
		switch {
		case id < 0 || id > maxNumber:
			return fmt.Errorf("%w: profile %d: numbers are between 0 and %d", model.ErrInvalid, id, maxNumber)
		case n < model.TargetUnlimited || n > maxNumber:
			return fmt.Errorf("%w: total %d of profile %d: must be between 0 and %d", model.ErrInvalid, n, id, model.MaxExecutors)
		}
	}
	for id, p := range r.Profiles {
		if id < 0 || id > maxNumber {
			return fmt.Errorf("%w: profile %d: numbers are between 0 and %d", model.ErrInvalid, id, maxNumber)
		}
		if err := p.Validate(); err != nil {
			return fmt.Errorf("profile %d: %w", id, err)
		}
	}
	return nil
}
