// Package fabrictest gives the tests of a package their own fabric key, so that they neither read
// nor create the key of the user. Child processes of the tests use the same key.
package fabrictest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/internal/fabric"
)

// Run runs the tests of a package with a temporary fabric key, and returns the exit status. A
// process that has inherited such a key keeps it.
func Run(m *testing.M) int {
	if os.Getenv(fabric.FileVariable) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "weft-fabric-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, fabric.FileName)
	if _, err := fabric.Init(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv(fabric.FileVariable, path)
	return m.Run()
}
