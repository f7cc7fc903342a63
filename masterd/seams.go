package masterd

import (
	"context"

	"github.com/hearthd/hearth/model"
)

// seams are where tests of this package make a leader scope slow, failing or
// panicking: nothing from outside can. The zero value does nothing.
type seams struct {
	// setUp runs before the barrier of each term.
	setUp func(ctx context.Context, term uint64) error
	// app runs before a leader looks at an application.
	app func(model.AppID)
}

func (s seams) setUpTerm(ctx context.Context, term uint64) error {
	if s.setUp == nil {
		return nil
	}
	return s.setUp(ctx, term)
}

func (s seams) lookAt(id model.AppID) {
	if s.app != nil {
		s.app(id)
	}
}
