package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// instruction is a line of a Containerfile.
var instruction = regexp.MustCompile(`(?m)^([A-Z]+) +(.*)$`)

// stage is one stage of a Containerfile.
type stage struct {
	from, name string
	user       string
	copies     [][]string
	runs       []string
	entry      []string
}

func readContainerfile(t *testing.T) (stages []*stage) {
	t.Helper()
	text, err := os.ReadFile("container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range instruction.FindAllStringSubmatch(string(text), -1) {
		what, rest := m[1], m[2]
		if what == "FROM" {
			f := strings.Fields(rest)
			if len(f) != 3 || f[1] != "AS" {
				t.Fatalf("FROM %s; expected an image and a name", rest)
			}
			stages = append(stages, &stage{from: f[0], name: f[2]})
			continue
		}
		if len(stages) == 0 {
			t.Fatalf("%s stands before the first FROM", what)
		}
		s := stages[len(stages)-1]
		switch what {
		case "USER":
			s.user = rest
		case "COPY":
			s.copies = append(s.copies, strings.Fields(rest))
		case "RUN":
			s.runs = append(s.runs, rest)
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &s.entry); err != nil {
				t.Errorf("ENTRYPOINT %s: %v; expected a list, since the images have no shell", rest, err)
			}
		case "WORKDIR":
		default:
			t.Errorf("%s is no instruction that this file needs", what)
		}
	}
	return stages
}

func TestTheImagesHoldOneStaticBinaryThatRunsWithoutRoot(t *testing.T) {
	stages := readContainerfile(t)
	build := stages[0]
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(build.from, "golang:")
	if version == "" || !regexp.MustCompile(`(?m)^go `+regexp.QuoteMeta(version)+`(\.|$)`).Match(mod) {
		t.Errorf("the images are built by %s; go.mod has another version", build.from)
	}
	compile := build.runs[len(build.runs)-1]
	if !strings.Contains(compile, "CGO_ENABLED=0 go build") {
		t.Errorf("%q makes no static binary", compile)
	}
	for _, s := range stages[1:] {
		if s.from != "scratch" || s.user == "" || strings.HasPrefix(s.user, "0") || strings.ContainsAny(s.user, "abcdefghijklmnopqrstuvwxyz") {
			t.Errorf("%s is made from %s and runs as %q; expected an empty image and the number of a user", s.name, s.from, s.user)
		}
		if len(s.copies) != 1 || len(s.entry) != 1 || s.copies[0][2] != s.entry[0] || s.copies[0][0] != "--from="+build.name {
			t.Errorf("%s copies %v and runs %v; expected one binary", s.name, s.copies, s.entry)
		}
		made := false
		for pkg := range strings.FieldsSeq(compile) {
			made = made || strings.HasPrefix(pkg, "./") && "/out/"+filepath.Base(pkg) == s.copies[0][1]
			if strings.HasPrefix(pkg, "./") {
				if _, err := os.Stat(filepath.Join("../..", pkg, "main.go")); err != nil {
					t.Error(err)
				}
			}
		}
		if !made {
			t.Errorf("%s copies %s, which %q does not make", s.name, s.copies[0][1], compile)
		}
	}
}
