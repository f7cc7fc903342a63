# want: master-sections.bad.hcl:5: log: section is given twice
# want: master-sections.bad.hcl:6: raft "a": a section has no label
# want: master-sections.bad.hcl:8: network.tls: a section has no sections inside
log {}
log {}
raft "a" {}
network {
  tls {}
}
