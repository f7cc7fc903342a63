package rpc

// Warm makes sure that the connection is up or being made, now rather than with
// the next call and without the back-off of an earlier failure. Whoever keeps a
// connection for a call that must not wait for it calls this now and then: gRPC
// lets a connection that broke rest until it is used. It does not block.
func (c *Conn) Warm() {
	c.cc.ResetConnectBackoff()
	c.cc.Connect()
}
