// Package rpc is Hearth's gRPC plumbing: servers and dialling with one set of
// limits and keepalive settings, interceptors, the conversion between model
// structs and the wire messages of proto/cluster/v1, the table that maps
// errors to status codes and back, and the forwarding of a client's call from a
// standby to the leader.
//
// The generated code stays inside: daemons implement and call the interfaces of
// services.go in model types and never see protobuf. rpc knows no policy: who
// leads is told to it by LeaderInfo.
//
// Importers: client, driver, executor, masterd, workerd and tests.
package rpc
