# want: default: tls.cert_file: must be set when another file of section tls is, or dir instead of all three
# want: master-tls.bad.hcl:8: tls.key_file: must be set when another file of section tls is, or dir instead of all three
# want: master-tls.bad.hcl:12: network.advertise "host:7070": must be a host without a port
# want: default: gossip.key_file: must be set when bind is not a loopback address: make a key with hearth operator gossip keys generate, the same for all members
# want: master-tls.bad.hcl:15: http.client_auth "none": must be one of require, optional
tls {
  ca_file  = "/ca.pem"
  key_file = ""
}
network {
  bind      = "10.0.0.1"
  advertise = "host:7070"
}
http {
  client_auth = "none"
}
