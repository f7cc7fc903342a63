// Package web shows a cluster to people and to programs over HTTP: pages, the JSON of the views, Spark's /json, and
// Prometheus metrics.
//
// All of them are made of one [Snapshot], which is what `hearth status` answers too, so that no two of them can differ
// (ADR 0029). The [Board] takes a new one when the old one has aged, at a bounded share of one core however many ask, from
// an immutable view: neither Raft nor the state machine waits for a reader.
//
// Nothing here changes anything. Every page is a GET, works without JavaScript, and loads nothing from elsewhere; with
// JavaScript it follows the cluster through one stream of events, whose readers are counted and slow ones dropped.
//
// It owns rendering, paging, limits and headers. It does not own listeners, TLS, or what a caller's credentials are worth:
// masterd and workerd serve its handlers and hand in a [Gate].
//
// It imports model and rpc. masterd and workerd import it.
package web
