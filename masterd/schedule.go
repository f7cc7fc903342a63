package masterd

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
)

// maxPassPause bounds the pause after a pass.
const maxPassPause = 50 * time.Millisecond

// planner is the scheduler of one term: its loop, and whoever places what he
// registers (place_now.go). One of them plans and proposes at a time.
type planner struct {
	l *leadership
	// turn has room for who plans. He owns everything below, until his plan is
	// committed. Not a mutex: a wait for the disk is no short one.
	turn chan struct{}

	index   *scheduler.Index
	changes *changedRecords
	// wakeAt is when a flag of the view changes by itself, in ms of cluster
	// clock; 0 = not known to.
	wakeAt int64
	read   time.Time     // when everything was last read
	readAt uint64        // the index of that view, if it was a pass; 0 = look at everything soon
	took   time.Duration // to plan, in the last pass
}

// runScheduler plans whenever something changed and commits what it planned. A
// pass that places nothing writes nothing. A pass looks at what changed since the
// one before; a second later, and when a flag changes by time, it looks at
// everything. While nothing changes any more and nothing is kept from placements
// for a time, there is no pass, except after restLook, for safety. After a pass
// the loop rests for as long as the planning took: what changes meanwhile is
// planned together, and the scheduler leaves the leader half a core at least.
func (l *leadership) runScheduler(ctx context.Context) error {
	changes, unwatch := l.m.hub.watchRecords()
	defer unwatch()
	p := &planner{l: l, turn: make(chan struct{}, 1), index: scheduler.NewIndex(), changes: changes}
	l.planner.Store(p)
	defer l.planner.Store(nil)
	for {
		next, err := p.pass(ctx)
		if err != nil {
			return err
		}
		if sleep(ctx, min(p.took, maxPassPause)) != nil || await(ctx, next, changes.poke, l.schedule) == byEnd {
			return nil
		}
	}
}

// changed says what the next plan has to look at again, given what has changed
// before the view was taken.
func (p *planner) changed(view *fsm.Scheduling, now int64, what scheduler.Changes) scheduler.Changes {
	if what.All || time.Since(p.read) >= loopTick || p.wakeAt > 0 && p.wakeAt <= now {
		p.read, p.wakeAt = time.Now(), view.NextWake()
		return scheduler.Changes{All: true}
	}
	for _, id := range what.Apps {
		if at := view.NextWakeOf(id); at > 0 && (p.wakeAt == 0 || at < p.wakeAt) {
			p.wakeAt = at
		}
	}
	return what
}

// pass makes one plan and proposes it. It returns how long until the next one
// if nothing changes, at most restLook. Not knowing what became of a proposal is
// no fault: the next pass reads the view again.
func (p *planner) pass(ctx context.Context) (time.Duration, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return loopTick, nil
	}
	defer func() { <-p.turn }()
	l := p.l
	what := p.changes.drain() // before the view: it has all of it
	now := l.m.node.ClusterTick()
	state := l.m.fsm.View()
	view := state.At(now)
	began := time.Now()
	what = p.changed(view, now, what)
	if what.All {
		p.readAt = state.Index()
	}
	blocked := l.anyBlocked() // before the plan: what ends meanwhile is not missed
	plan, err := p.plan(view, what)
	p.took = time.Since(began)
	l.m.metrics.activity.Planned(p.took)
	if err != nil {
		return 0, err
	}
	next := lookAfter(p.readAt != state.Index() || blocked || l.quarantine.any())
	if p.wakeAt > now {
		next = min(next, time.Duration(p.wakeAt-now)*time.Millisecond)
	}
	if len(plan.Drivers)+len(plan.Executors) == 0 {
		return next, nil
	}
	for i := range plan.Drivers {
		plan.Drivers[i].Secret = model.Secret(randomHex(16))
	}
	for i := range plan.Executors {
		plan.Executors[i].Secret = model.Secret(randomHex(16))
	}
	// One proposal, so that nobody comes between drivers and executors.
	cmds := append(driverPlacements(plan.Drivers), placements(plan.Executors)...)
	pctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	p.readAt = 0
	results, err := l.m.node.ProposeAll(pctx, cmds)
	if err != nil {
		if errors.Is(err, model.ErrOutcomeUnknown) || errors.Is(err, model.ErrUnavailable) || ctx.Err() != nil {
			l.log.Debug("placements not confirmed", "err", err)
			return loopTick, nil
		}
		if errors.Is(err, model.ErrTooLarge) || errors.Is(err, model.ErrInvalid) {
			// One application's; the term goes on for all others.
			l.log.Error("placements cannot be committed", "err", err)
			return loopTick, nil
		}
		return 0, err
	}
	if p.count(results) > 0 {
		return loopTick, nil
	}
	return 0, nil
}

// placements makes commands of a plan, none with too many or too large ones:
// the log refuses a command that fills more than an entry. A gang is never
// divided.
func placements(plan []model.Placement) []*replogv1.Command {
	var cmds []*replogv1.Command
	for len(plan) > 0 {
		n, size := 0, 0
		for n < len(plan) && (n < maxPlacementsCmd || sameGang(plan, n)) {
			size += proto.Size(fsm.PlacementToProto(plan[n]))
			if n > 0 && size > maxPlacementsSize && !sameGang(plan, n) {
				break
			}
			n++
		}
		if n > maxPlacementsCmd || size > maxPlacementsSize {
			if begin := gangBegin(plan, n); begin > 0 {
				n = begin // it has a command of its own
			}
		}
		cmds = append(cmds, placeExecutorsCommand(plan[:n]))
		plan = plan[n:]
	}
	return cmds
}

// sameGang reports whether a placement belongs to the gang of the one before.
func sameGang(plan []model.Placement, i int) bool {
	return i > 0 && plan[i].Gang != 0 && plan[i].Gang == plan[i-1].Gang
}

// gangBegin is where the gang begins that the first n placements end with; 0 =
// they end with none, or are one.
func gangBegin(plan []model.Placement, n int) int {
	if plan[n-1].Gang == 0 {
		return 0
	}
	begin := n - 1
	for begin > 0 && plan[begin-1].Gang == plan[n-1].Gang {
		begin--
	}
	return begin
}

// driverPlacements makes commands of what is planned for drivers.
func driverPlacements(plan []model.DriverPlacement) []*replogv1.Command {
	var cmds []*replogv1.Command
	for chunk := range slices.Chunk(plan, maxPlacementsCmd) {
		place := &replogv1.PlaceDrivers{}
		for _, p := range chunk {
			place.Placements = append(place.Placements, fsm.DriverPlacementToProto(p))
		}
		cmds = append(cmds, &replogv1.Command{Kind: &replogv1.Command_PlaceDrivers{PlaceDrivers: place}})
	}
	return cmds
}
