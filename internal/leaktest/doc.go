// Package leaktest is the TestMain of packages whose tests have real gossip: the
// library's short-lived goroutines (probes under way, a state sync) outlive a
// member by their own time-outs, and are no leak.
//
// It owns nothing. Only tests import it.
package leaktest
