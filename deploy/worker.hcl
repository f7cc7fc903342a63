# /etc/hearth/worker.hcl: a worker that offers all of its machine. See
# docs/configuration.md.

network {
  bind = "10.0.0.9"
}

worker {
  masters = ["10.0.0.1:7070", "10.0.0.2:7070", "10.0.0.3:7070"]
}

tls {
  ca_file   = "/etc/hearth/ca.pem"
  cert_file = "/etc/hearth/worker.pem"
  key_file  = "/etc/hearth/worker-key.pem"
}
