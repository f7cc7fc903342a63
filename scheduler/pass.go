package scheduler

import (
	"math"

	"github.com/hearthd/hearth/model"
)

// pass is one Plan in progress.
type pass struct {
	ix     *Index
	view   View
	opt    Options
	placed []model.Placement
	gangs  uint32 // placed so far
	users  map[string]int
	kept   kept
}

// run serves who waits, one after the other, until nothing is left or nobody
// waits for what is left.
func (ps *pass) run() {
	for ps.ix.pool.Len() > 0 || ps.kept.app != "" {
		g, shared := ps.ix.queue.next()
		if g == nil {
			return
		}
		w := g.head()
		if ps.held(w.claim) {
			g.skip()
			continue
		}
		var did outcome
		if shared || len(g.plan.shares) > 0 || ps.gangNeeds(w) > 0 {
			did = ps.turn(g, w)
		} else {
			did = ps.serve(g, w)
		}
		switch did {
		case passOver:
			return
		case servedLine:
			g.drop() // what is free only shrinks during a pass
		case served:
			g.skip()
		case servedOne:
		}
	}
}

// outcome is what became of who was served.
type outcome int

const (
	served     outcome = iota // it gets no more in this pass
	servedLine                // nor does anybody else in its line
	servedOne                 // it got one executor, and its turn may come again
	passOver
)

// held reports whether an application is to be left alone in this pass.
func (ps *pass) held(c *claim) bool {
	if c.asked == ps.ix.passes {
		return c.held
	}
	c.asked = ps.ix.passes
	c.held = ps.opt.AppHeld != nil && ps.opt.AppHeld(c.app.ID)
	return c.held
}

// serve places what one profile wants.
func (ps *pass) serve(g *group, w waiter) outcome {
	d, did, ok := ps.demand(g, w)
	if !ok {
		return did
	}
	room := math.MaxInt
	if ps.opt.MaxPlacements > 0 {
		room = ps.opt.MaxPlacements - len(ps.placed)
	}
	shares, did := ps.assign(&d, w, room, 0)
	if len(shares) == 0 {
		return did
	}
	now := &ps.ix.pool.now
	if len(ps.placed) > 0 && (now.cut || now.started > room) {
		return passOver
	}
	ps.ix.apps = append(ps.ix.apps, w.claim.app.ID)
	for _, s := range shares {
		share := ps.ix.pool.share(&d, s)
		for range share.Executors {
			if !ps.place(g, w, &d, &share, 0) {
				break // cannot be: the assignment follows the same rule
			}
		}
		ps.ix.pool.settle(share.at)
	}
	if ps.opt.MaxPlacements > 0 && (now.cut || len(ps.placed) >= ps.opt.MaxPlacements) {
		return passOver
	}
	return served
}

// turn places one executor of what one profile wants, or all that are missing
// of a gang. Where its
// executors go is assigned as serve does at the first of its turns; what others
// have taken meanwhile is passed over, and when nothing of it is left it is
// assigned anew.
func (ps *pass) turn(g *group, w waiter) outcome {
	if ps.opt.MaxPlacements > 0 && len(ps.placed) >= ps.opt.MaxPlacements {
		return passOver
	}
	for len(g.plan.shares) > 0 {
		if ps.placeNext(g, w, 0) {
			return servedOne
		}
	}
	d, did, ok := ps.demand(g, w)
	if !ok {
		return did
	}
	need := ps.gangNeeds(w)
	if need > 0 && ps.kept.app == w.claim.app.ID {
		ps.lend()
		defer ps.retake()
	}
	shares, did := ps.assign(&d, w, math.MaxInt, need)
	if len(shares) == 0 {
		return did
	}
	ps.ix.apps = append(ps.ix.apps, w.claim.app.ID)
	g.plan.demand = d
	for _, s := range shares {
		g.plan.shares = append(g.plan.shares, ps.ix.pool.share(&d, s))
	}
	if need == 0 {
		ps.placeNext(g, w, 0)
		return servedOne
	}
	ps.gangs++
	for range need {
		ps.placeNext(g, w, ps.gangs)
	}
	return servedOne
}

// placeNext places the next executor of a group's plan. It reports false where
// there is no room any more; its share is given up then.
func (ps *pass) placeNext(g *group, w waiter, gang uint32) bool {
	share := &g.plan.shares[0]
	ok := false
	if share.Cores <= ps.coresLeft(g, w.claim) {
		ok = ps.place(g, w, &g.plan.demand, share, gang)
		ps.ix.pool.settle(share.at)
	}
	if share.Executors--; share.Executors == 0 || !ok {
		g.plan.shares = g.plan.shares[1:]
	}
	return ok
}

// assign finds where a demand goes. Of a gang that does not find room for all
// its executors nothing does. did says what that means if there are no shares.
func (ps *pass) assign(d *Demand, w waiter, room, need int) (shares []share, did outcome) {
	a := w.claim.app
	var excluded func(model.WorkerID) bool
	if len(a.Excluded) > 0 {
		excluded = func(id model.WorkerID) bool { return ps.view.Excluded(a.ID, id) }
	}
	shares, fits := ps.ix.pool.assign(d, room, excluded, ps.opt.WorkerBlocked)
	switch {
	case !fits:
		did = servedLine
	case need > ps.ix.pool.now.started:
		shares, did = nil, served
	}
	return shares, did
}

// demand is what a profile asks for now. It reports false if it may get
// nothing, and what that means.
func (ps *pass) demand(g *group, w waiter) (d Demand, did outcome, ok bool) {
	c := w.claim
	d = Demand{
		Profile: c.app.Profiles[w.profile], CoresLeft: ps.coresLeft(g, c), SpreadOut: ps.ix.settings.SpreadOutApps,
		Require: c.app.Spec.Require, Prefer: c.app.Spec.Prefer,
	}
	if len(d.Prefer) == 0 {
		d.Prefer = nil
	}
	if t := c.want(w.profile); t != nil {
		d.Live, d.Wanted = t.live, t.wanted
	}
	switch {
	case g.left() < d.step():
		return d, servedLine, false // the queue's cap is the same for all
	case d.CoresLeft < d.step(), d.Live >= d.Wanted:
		return d, served, false
	}
	return d, served, true
}

// coresLeft is how many more cores an application may hold by all limits.
func (ps *pass) coresLeft(g *group, c *claim) int {
	left := min(c.left, g.left())
	if most := ps.ix.settings.UserCores; most > 0 {
		left = min(left, most-ps.userCores(c.app))
	}
	return left
}

// userCores is what the application's user holds, this pass included.
func (ps *pass) userCores(a *model.App) int {
	user := model.AppUser(a)
	n, known := ps.users[user]
	if !known {
		if ps.users == nil {
			ps.users = make(map[string]int)
		}
		n = ps.view.UserCores(user)
		ps.users[user] = n
	}
	return n
}

func (ps *pass) gangNeeds(w waiter) int {
	size := w.claim.app.Spec.MinExecutors
	if size <= 1 || w.profile != model.ProfileDefault {
		return 0
	}
	t := w.claim.want(w.profile)
	return max(min(size, t.wanted)-t.live, 0)
}

// place charges one executor to the pool and adds its placement, of the gang
// with this number unless that is 0.
func (ps *pass) place(g *group, w waiter, d *Demand, share *Share, gang uint32) bool {
	ix := ps.ix
	addrs, ok := ix.pool.charge(share.at, share.Cores, &d.Profile)
	if !ok {
		return false
	}
	p := model.Placement{
		App: w.claim.app.ID, Profile: w.profile, Worker: share.Worker.ID, Incarnation: share.Worker.Incarnation,
		Cores: share.Cores, MemoryMiB: d.Profile.MemoryMiB, Resources: addrs, Gang: gang,
	}
	ps.placed = append(ps.placed, p)
	if n := len(ix.workers); n == 0 || ix.workers[n-1] != share.Worker.ID {
		ix.workers = append(ix.workers, share.Worker.ID)
	}
	w.claim.took(w.profile, share.Cores)
	g.used += share.Cores
	if ix.settings.UserCores > 0 {
		ps.users[model.AppUser(w.claim.app)] += share.Cores
	}
	return true
}
