# /etc/hearth/worker.hcl: a worker that offers all of its machine. See
# docs/configuration.md.

network {
  bind = "10.0.0.9"
}

worker {
  masters = ["10.0.0.1:7070", "10.0.0.2:7070", "10.0.0.3:7070"]
}

# What hearth ca issue wrote, owned by the user hearth.
tls {
  dir = "/etc/hearth/worker-tls"
}
