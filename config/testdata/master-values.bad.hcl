# want: master-values.bad.hcl:19: network.grpc_port "-1": must be a port between 1 and 65535, or 0 to let the kernel choose
# want: master-values.bad.hcl:20: network.raft_port "65536": must be a port between 1 and 65535, or 0 to let the kernel choose
# want: master-values.bad.hcl:21: network.http_port "80.5": must be a port between 1 and 65535, or 0 to let the kernel choose
# want: master-values.bad.hcl:24: cluster.spread_out_apps "maybe": must be true or false
# want: master-values.bad.hcl:25: cluster.worker_selection_policy "BEST": must be one of CORES_FREE_DESC, CORES_FREE_ASC, MEMORY_FREE_DESC, MEMORY_FREE_ASC, WORKER_ID
# want: master-values.bad.hcl:28: raft.bootstrap_expect "0": must be a whole number between 1 and 9
# want: master-values.bad.hcl:29: raft.preset "slow": must be one of lan, fast, wan, rig
# want: master-values.bad.hcl:30: raft.log_store "true": must be one of wal, boltdb
# want: master-values.bad.hcl:31: raft.snapshot_interval "5": must be a duration with a unit, such as 1s
# want: master-values.bad.hcl:34: gossip.join: must be a list of strings, not string
# want: master-values.bad.hcl:37: scheduler.driver_timeout "1ms": must be between 100ms and 1h0m0s
# want: master-values.bad.hcl:38: scheduler.worker_beat: must have a value
# want: master-values.bad.hcl:39: scheduler.worker_timeout: variables not allowed: Variables may not be used here.
# want: master-values.bad.hcl:42: log.level "loud": must be one of trace, debug, info, warn, error
# want: master-values.bad.hcl:43: log.format "xml": must be one of text, json

# Every kind of value that its key does not take.
network {
  grpc_port = -1
  raft_port = 65536
  http_port = 80.5
}
cluster {
  spread_out_apps         = "maybe"
  worker_selection_policy = "BEST"
}
raft {
  bootstrap_expect  = 0
  preset            = "slow"
  log_store         = true
  snapshot_interval = "5"
}
gossip {
  join = "m1,m2"
}
scheduler {
  driver_timeout = "1ms"
  worker_beat    = null
  worker_timeout = never
}
log {
  level  = "loud"
  format = "xml"
}
