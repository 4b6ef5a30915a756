package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bedHost is this host with other settings. Files below root take the place of the host's, and the
// programs in root/bin change these files. So a test can change a setting of the whole machine
// without changing the machine, and run the command that mends it.
type bedHost struct {
	Host
	root string
}

// tools are the programs of a bedHost. Each changes the files below $ROOT as the program of this
// name changes a host.
var tools = map[string]string{
	"sudo": `exec "$@"`,
	"sysctl": `test "$1" = -w && shift
for s; do echo "${s#*=}" >"$ROOT/proc/sys/$(echo "${s%%=*}" | tr . /)"; done`,
	"prlimit": `test "$1 $2" = "--pid $PPID"
n=${3#--memlock=}; echo "Max locked memory         ${n%:*} ${n#*:} bytes" >"$ROOT/proc/self/limits"`,
	"timedatectl": `test "$*" = "set-ntp true" && echo 0 >"$ROOT/clock"`,
	"chronyc":     `test "$*" = makestep && echo 0 >"$ROOT/clock"`,
	"systemctl":   `test "$*" = "restart weft-nic.service" && echo new >"$ROOT/daemon"`,
}

// newBed returns a host with files and with some of the tools.
func newBed(t *testing.T, files map[string]string, names ...string) *bedHost {
	t.Helper()
	real, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	h := &bedHost{real, t.TempDir()}
	for name, text := range files {
		h.write(t, name, text+"\n", 0o600)
	}
	for _, name := range append(names, "sudo") {
		h.write(t, "bin/"+name, "#!/bin/sh -e\n"+tools[name]+"\n", 0o700)
	}
	return h
}

func (h *bedHost) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (h *bedHost) Root() bool { return false }

func (h *bedHost) Read(path string) ([]byte, error) {
	if b, err := os.ReadFile(filepath.Join(h.root, path)); err == nil {
		return b, nil
	}
	return h.Host.Read(path)
}

func (h *bedHost) Has(tool string) bool {
	_, err := os.Stat(filepath.Join(h.root, "bin", tool))
	return err == nil
}

// number reads a file with one number.
func (h *bedHost) number(name string) int {
	text, _ := os.ReadFile(filepath.Join(h.root, name))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

func (h *bedHost) Buffers(want int) (receive, send int, err error) {
	return min(want, h.number("proc/sys/net/core/rmem_max")), min(want, h.number("proc/sys/net/core/wmem_max")), nil
}

func (h *bedHost) Userfault() (bool, error) {
	return h.number("proc/sys/vm/unprivileged_userfaultfd") == 1, nil
}

// Now is the time of a clock that is slow by the hours in the file clock.
func (h *bedHost) Now() time.Time {
	return time.Now().Add(-time.Duration(h.number("clock")) * time.Hour)
}

func (h *bedHost) CPUGroups(string) ([]string, error) {
	return []string{filepath.Join(h.root, "inner"), filepath.Join(h.root, "outer")}, nil
}

// run runs the command of a finding on the host.
func (h *bedHost) run(t *testing.T, f *Finding) {
	t.Helper()
	x := exec.CommandContext(t.Context(), "sh", "-c", f.Mend)
	x.Env = append(os.Environ(), "PATH="+filepath.Join(h.root, "bin")+":"+os.Getenv("PATH"), "ROOT="+h.root)
	if out, err := x.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", f.Mend, err, out)
	}
}

// one looks for one ill and returns its only finding.
func one(t *testing.T, look func(*Patient) ([]Finding, error), p *Patient, what ...string) *Finding {
	t.Helper()
	found, err := look(p)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v; expected one ill", found, err)
	}
	f := &found[0]
	for _, w := range what {
		if !strings.Contains(f.What, w) {
			t.Errorf("the finding is %q; expected %q in it", f.What, w)
		}
	}
	if f.Cost == "" || f.Mend == "" {
		t.Errorf("a finding without its cost, or without its command: %+v", f)
	}
	return f
}

// gone checks that an ill is not there.
func gone(t *testing.T, look func(*Patient) ([]Finding, error), p *Patient) {
	t.Helper()
	if found, err := look(p); err != nil || len(found) != 0 {
		t.Errorf("found %+v, %v; expected nothing", found, err)
	}
}
