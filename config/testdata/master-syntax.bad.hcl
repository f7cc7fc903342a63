# want: master-syntax.bad.hcl:3: unclosed configuration block: There is no closing brace for this block before the end of the file. This may be caused by incorrect brace nesting elsewhere in this file.
data_dir = "x"
network {
