data_dir = "/var/lib/hearth/worker"

network {
  bind      = "::1"
  grpc_port = 0
  serf_port = 0
  http_port = 0
}

gossip {
  join     = ["master-1"]
  key_file = "/etc/hearth/gossip.key"
}

http {
  client_auth = "optional"
}

worker {
  masters   = ["master-1", "master-2:17070"]
  cores     = 16
  memory    = "1.5GiB"
  resources = { gpu = ["0", "1"], fpga = "f1" }
  labels    = { zone = "a", disk = "ssd" }
  work_dir  = "/scratch/hearth"
  work_budget = "40g"
  program_cache = "512m"
}
