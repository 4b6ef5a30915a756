// Package fabrictest gives the tests of a package a fabric key of their own, so that they neither
// read nor make that of the user who runs them. Processes that they start have it too.
package fabrictest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/internal/fabric"
)

// Run runs the tests of a package with a fabric key that is gone afterwards, and returns the exit
// status. A process that has one from its parent keeps it.
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
