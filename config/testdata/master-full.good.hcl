data_dir = "/var/lib/hearth/master"

network {
  bind      = "10.0.0.1"
  advertise = "master-1.example.com"
  grpc_port = 17070
  raft_port = 17071
  serf_port = 17072
  http_port = 0
}

cluster {
  spread_out_apps         = false
  worker_selection_policy = "MEMORY_FREE_DESC"
  default_cores           = 8
  spread_out_drivers      = false
  max_drivers             = 12
  driver_share            = 0.25
  queues                  = ["prod,priority=10,cap_cores=64", "batch,weight=2"]
  user_cores              = 32
  gang_after              = "5m"
}

raft {
  bootstrap_expect   = 3
  preset             = "wan"
  log_store          = "boltdb"
  snapshot_threshold = 1000
  snapshot_interval  = "30s"
}

gossip {
  join     = ["master-2.example.com", "10.0.0.3:7000", "fd00::3", "[fd00::4]:7001"]
  key_file = "/etc/hearth/gossip.key"
}

tls {
  dir       = "/etc/hearth/tls"
  ca_file   = "/etc/hearth/ca.pem"
  cert_file = "/etc/hearth/master.pem"
  key_file  = "/etc/hearth/master.key"
}

access {
  tokens = "required"
}

http {
  client_auth = "optional"
}

scheduler {
  worker_beat    = "500ms"
  worker_timeout = "20s"
  driver_timeout = "1m"
}

log {
  level  = "debug"
  format = "json"
}
