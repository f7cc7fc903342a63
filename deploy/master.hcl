# /etc/hearth/master.hcl: one of three masters. See docs/configuration.md.

network {
  bind = "10.0.0.1"
}

gossip {
  join = ["10.0.0.2:7072", "10.0.0.3:7072"]
}

raft {
  bootstrap_expect = 3
}

tls {
  ca_file   = "/etc/hearth/ca.pem"
  cert_file = "/etc/hearth/master.pem"
  key_file  = "/etc/hearth/master-key.pem"
}
