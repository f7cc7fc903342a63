# want: master-join.bad.hcl:3: gossip.join "m1:0": the port of "m1:0" must be between 1 and 65535
gossip {
  join = ["m1:0"]
}
raft {}
