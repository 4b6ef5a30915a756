package pmi

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// ownFD returns a descriptor that no *os.File of this program closes. It closes f.
func ownFD(t *testing.T, f *os.File) int {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return fd
}

// someFile returns an open file and its descriptor.
func someFile(t *testing.T) (*os.File, int) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, int(f.Fd())
}
