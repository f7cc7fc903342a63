# want: client-empty.bad.hcl:4: client.masters: must name at least one master
# want: client-empty.bad.hcl:6: log: no such section for this kind of process
client {
  masters = []
}
log {}
