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

# What hearth ca issue wrote, owned by the user hearth.
tls {
  dir = "/etc/hearth/master-tls"
}

access {
  tokens = "required"
}
