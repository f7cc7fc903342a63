# want: master-unknown.bad.hcl:8: datadir: no such key; did you mean data_dir?
# want: master-unknown.bad.hcl:9: grpc_port: no such key; it is network.grpc_port
# want: master-unknown.bad.hcl:10: networks: no such section; did you mean network?
# want: master-unknown.bad.hcl:13: worker: no such section for this kind of process
# want: master-unknown.bad.hcl:17: raft.bootstrap_expected: no such key; did you mean bootstrap_expect?
# want: master-unknown.bad.hcl:18: raft.masters: no such key

datadir   = "/x"
grpc_port = 1
networks {
  bind = "127.0.0.1"
}
worker {
  cores = 1
}
raft {
  bootstrap_expected = 3
  masters            = 3
}
