package picture

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures in docs/pictures")

// folder is docs/pictures as a test of an example sees it.
const folder = "../../docs/pictures"

// Check compares a drawing with a file of docs/pictures. The flag -update writes the file. The file
// holds for amd64. Other processors may round the coordinates in another way, so there Check skips.
func Check(t *testing.T, d *Drawing, name string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if *update {
		if err := os.WriteFile(file, d.svg(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the pictures are those of amd64")
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(d.svg(), want) {
		t.Errorf("%s differs from the picture that this test draws; if this is intended, run: go test . -update", file)
	}
}
