//go:build !cgo

package main

import (
	"os"
	"testing"
)

// The test's own binary has the packages of weft, and is linked like weft.
func TestABuildWithoutCgoIsStatic(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	static(t, path)
}
