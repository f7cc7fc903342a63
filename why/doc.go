// Package why says why applications and drivers wait: a view in, reasons with
// numbers out, by the rules by which the scheduler places (model.Fits,
// model.Wanted, model.CoresLimit).
//
// It owns the order in which reasons are looked for and their texts. The closed
// list of codes is the model's. It does not own any rule of placement, and it
// changes nothing: an explanation is made when somebody asks, from the state as
// it is then, so that none outlives its cause. No clock, goroutine or I/O.
//
// explain.go reads the workers once, app.go goes through what can keep one
// application waiting, fits.go says which workers could hold a size, holders.go
// who has taken what, queue.go who comes first, text.go how it reads. ADR 0037
// has the reasons.
//
// masterd and simulate import it.
package why
