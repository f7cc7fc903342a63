worker {
  resources = ["fpga=f1", "testdata/resources.json"]
}
