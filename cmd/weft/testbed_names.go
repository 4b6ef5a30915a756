package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/pflag"
)

// A testbed has a directory in the directory for temporary files. Its name ends in the name of
// the testbed.
const testbedDirPrefix = "weft-testbed-"

var testbedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// testbedNameFlag defines a flag that takes the name of a testbed.
func testbedNameFlag(fs *pflag.FlagSet, p *string, name, usage string) {
	fs.Var(&checkedFlag{
		kind: "NAME",
		want: "a name of 1 to 32 letters, digits, and '.', '_', '-' after the first",
		set: func(s string) bool {
			*p = s
			return testbedName.MatchString(s)
		},
	}, name, usage)
}

// ofJoining are the flags that --join goes with.
var ofJoining = []string{"join", "on", "grace"}

// completeJoin refuses flags that describe a new testbed if --join is given.
func (o *execOptions) completeJoin(fs *pflag.FlagSet) (err error) {
	if o.join == "" {
		return nil
	}
	fs.Visit(func(f *pflag.Flag) {
		if err == nil && !slices.Contains(ofJoining, f.Name) {
			err = usagef("--%s with --join: testbed %s is built already; expected no flags but --on and --grace",
				f.Name, o.join)
		}
	})
	return err
}

// testbedDir returns the directory of a testbed.
func testbedDir(name string) string { return filepath.Join(os.TempDir(), testbedDirPrefix+name) }
