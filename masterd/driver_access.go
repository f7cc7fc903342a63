package masterd

import (
	"context"
	"fmt"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// driverSecret tells handshakes the secret of an attempt of a driver: of the present
// one, and of those before it that are still in the driver's record, which are let
// in to be told that they are over. A replica that lags does not know a new one; it
// asks another master then.
func (a *access) driverSecret(name string) (string, bool) {
	ref, err := model.ParseDriverRefName(name)
	if err != nil {
		return "", false
	}
	e, ok := a.m.fsm.View().AttemptAt(ref)
	if !ok || e.Secret == "" {
		return "", false
	}
	return e.Secret.Reveal(), true
}

// Driver says for whom an attempt of a driver acts, as long as that is the present
// attempt in this replica.
func (a *access) Driver(_ context.Context, name string) (string, error) {
	ref, err := model.ParseDriverRefName(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", model.ErrUnauthenticated, err)
	}
	return attemptOwner(a.m.fsm.View(), ref)
}

// attemptOwner is who has submitted the driver of an attempt that has not been
// fenced: it is the last one, and its process may still run. That of a silent worker
// may, until the next attempt is placed.
func attemptOwner(v *fsm.View, ref model.ExecutorRef) (string, error) {
	d, ok := v.Driver(model.DriverID(ref.App))
	switch {
	case !ok:
		return "", fmt.Errorf("%w: driver %s is not known to this master", model.ErrUnauthenticated, ref.App)
	case d.State.Terminal():
		return "", fmt.Errorf("%w: driver %s is %s: %s", model.ErrUnauthenticated, d.ID, d.State, d.Reason)
	case ref != d.Ref():
		return "", fmt.Errorf("%w: attempt %d of driver %s is over: attempt %d has followed it", model.ErrUnauthenticated, ref.Executor, d.ID, d.Attempt)
	}
	if _, live := v.Attempt(d); live || v.MayComeBack(d) {
		return d.Principal, nil
	}
	return "", fmt.Errorf("%w: attempt %d of driver %s is over: %s", model.ErrUnauthenticated, ref.Executor, d.ID, d.Reason)
}
