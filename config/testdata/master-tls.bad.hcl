# want: default: tls.cert_file: must be set when another file of section tls is
# want: master-tls.bad.hcl:6: tls.key_file: must be set when another file of section tls is
# want: master-tls.bad.hcl:9: network.advertise "host:7070": must be a host without a port
tls {
  ca_file  = "/ca.pem"
  key_file = ""
}
network {
  advertise = "host:7070"
}
