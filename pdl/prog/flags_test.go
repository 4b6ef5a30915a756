package prog_test

import "flag"

var rewrite = flag.Bool("rewrite", false, "rewrite the files in testdata that are compared with")
