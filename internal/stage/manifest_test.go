package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

func TestAManifestSurvivesJSON(t *testing.T) {
	m := manifestOf(t, bytes.Repeat([]byte("weft"), 100_000), "prog")
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got := new(Manifest)
	if err := json.Unmarshal(text, got); err != nil || got.Check() != nil || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Errorf("%v becomes %v (%v)", m, got, err)
	}
}

func manifestOf(t *testing.T, content []byte, name string) *Manifest {
	t.Helper()
	m, err := Describe(bytes.NewReader(content), int64(len(content)), name, ModeProgram)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestManifestsThatNoLauncherSendsAreRefused(t *testing.T) {
	for what, spoil := range map[string]func(*Manifest){
		"name \"\"":                         func(m *Manifest) { m.Name = "" },
		"name \"..\"":                       func(m *Manifest) { m.Name = ".." },
		"name \"../etc/passwd\"":            func(m *Manifest) { m.Name = "../etc/passwd" },
		"name \"/bin/sh\"":                  func(m *Manifest) { m.Name = "/bin/sh" },
		"name \"-rf\"":                      func(m *Manifest) { m.Name = "-rf" },
		"name \"a\\x00b\"":                  func(m *Manifest) { m.Name = "a\x00b" },
		"name \"a\\nb\"":                    func(m *Manifest) { m.Name = "a\nb" },
		"name \"aaaa":                       func(m *Manifest) { m.Name = strings.Repeat("a", limits.StagedName+1) },
		"mode 04755":                        func(m *Manifest) { m.Mode = 0o4755 },
		"a file of -1 bytes":                func(m *Manifest) { m.SizeBytes = -1 },
		"a file of 9223372036854775807 byt": func(m *Manifest) { m.SizeBytes = 1<<63 - 1 },
		"32 bytes of hashes; expected 64":   func(m *Manifest) { m.SizeBytes = limits.StagedChunkBytes + 1 },
		"31 bytes of hashes":                func(m *Manifest) { m.Sums = m.Sums[1:] },
		"sha256 \"../../":                   func(m *Manifest) { m.SHA256 = "../../" + m.SHA256[6:] },
		"sha256 \"A":                        func(m *Manifest) { m.SHA256 = "A" + m.SHA256[1:] },
		"sha256 \"\"":                       func(m *Manifest) { m.SHA256 = "" },
	} {
		m := manifestOf(t, []byte("content"), "prog")
		spoil(m)
		if err := m.Check(); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), what) {
			t.Errorf("Check says %v; expected ErrManifest about %s", err, what)
		}
	}
	if err := (*Manifest)(nil).Check(); !errors.Is(err, ErrManifest) {
		t.Errorf("no manifest at all: %v", err)
	}
}

func TestDescribeRefusesAFileOfAnotherLength(t *testing.T) {
	content := make([]byte, 1000)
	for size, want := range map[int64]error{999: ErrContent, 1001: ErrContent, -1: ErrManifest, limits.StagedFileBytes + 1: ErrManifest} {
		if _, err := Describe(bytes.NewReader(content), size, "prog", ModeProgram); !errors.Is(err, want) {
			t.Errorf("Describe says %v of a file of 1000 bytes, %d expected", err, size)
		}
	}
}

func TestThePlanOfTheLongestFileFitsIntoOneMessage(t *testing.T) {
	for _, size := range []int64{limits.StagedChunks * limits.StagedChunkBytes, limits.StagedFileBytes} {
		m := &Manifest{Name: strings.Repeat("n", limits.StagedName), SizeBytes: size, Mode: ModeProgram, SHA256: strings.Repeat("0", 64)}
		m.Sums = make([]byte, 32*m.Chunks())
		app := strings.Repeat("a", 24)
		text, err := json.Marshal(NewPlan(weft.Name{App: app}, app, limits.Peers, m))
		if err != nil || m.Check() != nil || len(text) > limits.StagedPlanBytes || m.Chunks() != limits.StagedChunks {
			t.Errorf("%d bytes: %d chunks, a plan of %d bytes; %v, %v", size, m.Chunks(), len(text), err, m.Check())
		}
		if offset, n := m.span(limits.StagedChunks - 1); offset+int64(n) != size {
			t.Errorf("%d bytes: the last chunk ends at %d", size, offset+int64(n))
		}
	}
}

func TestRequestsThatNameNoChunkAreRefused(t *testing.T) {
	m := manifestOf(t, make([]byte, 3*limits.StagedChunkBytes), "prog")
	var b [requestBytes]byte
	m.putRequest(&b, 2)
	if chunk, ok := m.parseRequest(b[:]); !ok || chunk != 2 {
		t.Errorf("the request for chunk 2 is read as %d, %v", chunk, ok)
	}
	for n := range b[:] {
		if _, ok := m.parseRequest(b[:n]); ok {
			t.Errorf("the first %d bytes of a request are taken for one", n)
		}
	}
	m.putRequest(&b, 3)
	if _, ok := m.parseRequest(b[:]); ok {
		t.Error("a request for a chunk beyond the end is taken")
	}
	other := manifestOf(t, []byte("other"), "prog")
	other.putRequest(&b, 0)
	if _, ok := m.parseRequest(b[:]); ok {
		t.Error("a request for another file is taken")
	}
}

func TestEveryHostOfATreeHasTheLauncherAbove(t *testing.T) {
	big := manifestOf(t, make([]byte, 8<<20), "prog")
	for _, hosts := range []int{1, 2, 7, 8, 9, 100, 1024} {
		tree := NewTree(weft.Name{App: "job.run"}, "job.run", hosts, big)
		children := map[int]int{}
		for h := range hosts {
			children[tree.Parent(h)]++
			steps := 0
			for at := h; at != Launcher; at = tree.Parent(at) {
				if steps++; steps > hosts || at < 0 {
					t.Fatalf("%d hosts: host %d does not have the launcher above", hosts, h)
				}
			}
			if tree.Fan == 2 && steps > 11 {
				t.Errorf("%d hosts: host %d is %d steps below the launcher", hosts, h, steps)
			}
		}
		for p, n := range children {
			if n > tree.Fan {
				t.Errorf("%d hosts: %d has %d children; expected at most %d", hosts, p, n, tree.Fan)
			}
		}
		if chain := hosts <= 8; chain != (tree.Fan == 1) {
			t.Errorf("%d hosts: each has %d children", hosts, tree.Fan)
		}
	}
}
