# want: master-rules.bad.hcl:8: data_dir: must not be empty
# want: default: network.advertise: must be set when bind is 0.0.0.0: others cannot dial that
# want: master-rules.bad.hcl:10: network.bind "0.0.0.0": must be a loopback address unless TLS is configured (section tls); to run open on a trusted network write allow_insecure = true
# want: master-rules.bad.hcl:12: network.serf_port "9000": must differ from network.grpc_port
# want: master-rules.bad.hcl:18: scheduler.worker_timeout "2s": must be at least 3 times worker_beat (1s)
# want: default: raft.bootstrap_expect: must be set when join is: how many masters found the cluster together

data_dir = ""
network {
  bind      = "0.0.0.0"
  grpc_port = 9000
  serf_port = 9000
}
gossip {
  join = ["m2"]
}
scheduler {
  worker_timeout = "2s"
}
