package model

// Placing says with whom an application waits and where its executors may go
// (ADR 0033). The zero value is Spark's rule: one queue, any number at a time,
// any worker.
type Placing struct {
	// Queue is the queue to wait in; "" = QueueDefault.
	Queue string
	// MinExecutors is how many executors of the default profile begin together
	// or not at all (a gang); 0 = any number will do.
	MinExecutors int
	// Require are labels that a worker must have, Prefer those that break ties
	// between workers first.
	Require map[string]string
	Prefer  map[string]string
}

// Apply puts it into a description.
func (p Placing) Apply(s *AppSpec) {
	s.Queue, s.MinExecutors, s.Require, s.Prefer = p.Queue, p.MinExecutors, p.Require, p.Prefer
}
