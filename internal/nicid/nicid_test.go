package nicid

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestAnIDIsWrittenAsItIsRead(t *testing.T) {
	const text = "0:0:0:96:221:127:255:140"
	id, err := Parse(text)
	if err != nil || id != 0x60dd7fff8c || id.String() != text {
		t.Errorf("%s is read as %#x, %v, and written as %v", text, uint64(id), err, id)
	}
}

// otherSpelling matches a NIC or peer in a format whose text differs from that of ID.
var otherSpelling = regexp.MustCompile(`(NICs?|[Pp]eer) %(0?[0-9]*[xX]|d)`)

// In sim and internal/sweep, the number of its host names a NIC.
var byHost = regexp.MustCompile(`^(sim|internal/sweep)/`)

// Events and checks once wrote ids in hexadecimal, which no tool accepts.
func TestNoTextWritesAnIDInAnotherWay(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		for i, line := range strings.Split(string(text), "\n") {
			found := otherSpelling.FindStringSubmatch(line)
			if found != nil && !(found[2] == "d" && byHost.MatchString(name)) {
				t.Errorf("%s:%d writes a NIC's id with %%%s; expected nicid.ID with %%v", name, i+1, found[2])
			}
		}
		return nil
	})
	if err != nil || files < 300 {
		t.Errorf("%d files, %v", files, err)
	}
}
