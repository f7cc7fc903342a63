package stray

import "net"

// Open listens.
func Open() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
