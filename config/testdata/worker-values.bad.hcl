# want: worker-values.bad.hcl:10: worker.cores "-2": must be a whole number between 0 and 1048576
# want: worker-values.bad.hcl:11: worker.memory "4x": unknown unit: use k, m, g or t, as in 512m, 4g or 1.5GiB
# want: worker-values.bad.hcl:12: worker.resources "gpu=0,0": address "0" of resource "gpu" is empty, too long or given twice
# want: worker-values.bad.hcl:13: worker.labels "zone": must be name=value, "zone" is not
# want: worker-values.bad.hcl:14: worker.masters "bad host": must be a host name or an IP address, "bad host" is neither
# want: worker-values.bad.hcl:15: worker.driver_timeout: no such key
# want: worker-values.bad.hcl:17: raft: no such section for this kind of process

worker {
  cores          = -2
  memory         = "4x"
  resources      = { gpu = ["0", "0"] }
  labels         = ["zone"]
  masters        = ["bad host"]
  driver_timeout = "1s"
}
raft {}
