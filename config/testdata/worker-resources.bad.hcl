# want: worker-resources.bad.hcl:3: worker.resources "/does/not/exist.json": must be name=address,address or a file: /does/not/exist.json: must be a readable file: stat /does/not/exist.json: no such file or directory
worker {
  resources = ["/does/not/exist.json"]
}
