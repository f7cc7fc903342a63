client {
  masters = ["m1", "m2:17070"]
}
tls {
  ca_file   = "ca.pem"
  cert_file = "client.pem"
  key_file  = "client.key"
}
