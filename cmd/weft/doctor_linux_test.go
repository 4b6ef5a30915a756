package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/doctor"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/testenv"
)

// doctored is a directory for NICs that a doctor's commands restart, with the programs that these
// commands use.
type doctored struct {
	dir string
	env []string
}

// newDoctored makes programs of the names weft and ssh. ssh runs the rest of its line with the
// fabric key of the other host, remoteKey.
func newDoctored(t *testing.T) *doctored {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &doctored{dir: t.TempDir()}
	for name, script := range map[string]string{
		"weft": "#!/bin/sh\nexport " + asWeft + "=1\nexec " + self + " \"$@\"\n",
		"ssh":  "#!/bin/sh\nshift\nexport " + fabric.FileVariable + "=" + d.path("far.key") + "\nexec \"$@\"\n",
	} {
		if err := os.WriteFile(d.path(name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.env = append(os.Environ(), "PATH="+d.dir+":"+os.Getenv("PATH"))
	return d
}

func (d *doctored) path(name string) string { return filepath.Join(d.dir, name) }

// nic starts a NIC. At the end, it stops the NIC that then has the socket.
func (d *doctored) nic(t *testing.T, name string, args ...string) (socket string) {
	t.Helper()
	socket = d.path(name + ".sock")
	startNIC(t, append([]string{"--socket", socket}, args...)...)
	t.Cleanup(func() { weft("nic", "stop", "--socket", socket) })
	return socket
}

// machineIlls are the ills that the machine of the tests may have.
var machineIlls = []string{"buffers", "throttled", "userfault"}

// findings reads the output of weft doctor --json, without the ills of the machine.
func findings(t *testing.T, out string) (found []doctor.Finding) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var f doctor.Finding
		if err := d.Decode(&f); err != nil {
			t.Fatalf("weft doctor --json: %q: %v", out, err)
		}
		if !slices.Contains(machineIlls, f.Ill) {
			found = append(found, f)
		}
	}
	return found
}

// examined runs weft doctor at a socket.
func examined(t *testing.T, socket string, more ...string) []doctor.Finding {
	t.Helper()
	status, out, stderr := weft(append([]string{"doctor", "--json", "--socket", socket}, more...)...)
	if status != 0 && (status != exitFailed || stderr != "") || (status == 0) != (out == "") {
		t.Fatalf("weft doctor: %d %q %q", status, out, stderr)
	}
	return findings(t, out)
}

// mended waits for one ill at a socket, runs its command, and waits until the ill is gone.
func (d *doctored) mended(t *testing.T, socket, ill string) doctor.Finding {
	t.Helper()
	var f doctor.Finding
	eventually(t, "the ill is found", func() bool {
		found := examined(t, socket)
		if len(found) != 1 || found[0].Ill != ill {
			return false
		}
		f = found[0]
		return true
	})
	x := exec.CommandContext(t.Context(), "sh", "-ec", f.Mend)
	x.Env = d.env
	if out, err := x.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", f.Mend, err, out)
	}
	d.well(t, socket)
	return f
}

// well waits until the NIC at a socket knows another one, and the doctor finds no ill.
func (d *doctored) well(t *testing.T, socket string) {
	t.Helper()
	eventually(t, "nothing is found", func() bool {
		status, out, _ := weft("nodes", "--socket", socket)
		return status == 0 && strings.Contains(out, " up ") && len(examined(t, socket)) == 0
	})
}

func TestAHealthyHostHasNothing(t *testing.T) {
	d := newDoctored(t)
	near, far := testenv.Loopback(t), testenv.Loopback(t)
	a := d.nic(t, "a", "--listen", near, "--node", far)
	d.nic(t, "b", "--listen", far, "--node", near)
	d.well(t, a)
	if found := examined(t, a, "--peer", "127.0.0.1"); len(found) > 0 {
		t.Errorf("with --peer: %+v", found)
	}
	found := examined(t, a, "--peer", "127.0.0.9")
	if len(found) != 1 || found[0].Ill != "filter" || !strings.Contains(found[0].What, "knows no NIC at 127.0.0.9") {
		t.Errorf("with a host of which the NIC does not know: %+v", found)
	}
}

// The NIC takes the fabric key of the other host by the command.
func TestANICWithAnotherFabricKeyIsFoundAndTheCommandGivesItTheKey(t *testing.T) {
	d := newDoctored(t)
	for _, key := range []string{"near.key", "far.key"} {
		must(t, "fabric", "init", "--file", d.path(key))
	}
	near, far := testenv.Loopback(t), testenv.Loopback(t)
	a := d.nic(t, "a", "--listen", near, "--node", far, "--key-file", d.path("near.key"))
	d.nic(t, "b", "--listen", far, "--node", near, "--key-file", d.path("far.key"))
	f := d.mended(t, a, "key")
	if secret := must(t, "fabric", "show", "--file", d.path("far.key")); strings.Contains(f.Mend+f.What+f.Note, strings.TrimSpace(secret)) {
		t.Errorf("the finding tells the key: %+v", f)
	}
}

// The state of one NIC was copied, as with the disk of a host.
func TestTwoNICsWithOneIDAreFoundAndTheCommandGivesOneANewID(t *testing.T) {
	d := newDoctored(t)
	near, far := testenv.Loopback(t), testenv.Loopback(t)
	id := nicIDAt(t, d.path("a.sock"))
	key, err := os.ReadFile(d.path("a.state/nic.key"))
	if err == nil {
		err = errors.Join(os.Mkdir(d.path("b.state"), 0o700), os.WriteFile(d.path("b.state/nic.key"), key, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	a := d.nic(t, "a", "--listen", near, "--node", far)
	b := d.nic(t, "b", "--listen", far, "--node", near)
	d.mended(t, b, "id")
	if got := must(t, "stat", "--json", "--socket", b); strings.Contains(got, `"nic":"`+id+`"`) {
		t.Errorf("the NIC keeps its id: %s", got)
	}
	d.well(t, a)
}

// A daemon of another version refuses each request. The doctor still finds it.
func TestADaemonThatDoesNotUnderstandTheDoctorIsOfAnotherBuild(t *testing.T) {
	socket := answering(t, &ctl.Reply{Error: &ctl.Error{Code: "version", Text: "got version 1, this daemon has 9"}})
	found := examined(t, socket)
	if len(found) != 1 || found[0].Ill != "version" || !strings.Contains(found[0].What, "of another build") {
		t.Errorf("found %+v", found)
	}
}

func TestTheDoctorLooksWithoutADaemonAtItsConfiguration(t *testing.T) {
	d := newDoctored(t)
	at := testenv.Loopback(t)
	file := d.path("nic.toml")
	if err := os.WriteFile(file, []byte("listen = \""+at+"\"\nlink = \"udp\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := d.path("none.sock")
	if found := examined(t, none, "--config", file); len(found) > 0 {
		t.Errorf("at a free port: %+v", found)
	}
	other := d.nic(t, "other", "--listen", at)
	found := examined(t, none, "--config", file)
	if len(found) != 1 || found[0].Ill != "port" || !strings.HasPrefix(found[0].Mend, "kill ") {
		t.Fatalf("at a port that another daemon has: %+v", found)
	}
	if status, _, stderr := weft("doctor", "--socket", other, "--config", file); status != exitUsage || !strings.Contains(stderr, "a daemon runs") {
		t.Errorf("--config beside a daemon: %d %q", status, stderr)
	}
	status, out, stderr := weft("doctor", "--socket", none, "--config", file)
	if status != exitFailed || stderr != "" || !strings.Contains(out, "port: another program has the UDP port") ||
		!strings.Contains(out, "  costs: ") || !strings.Contains(out, "  mend:\n    kill ") {
		t.Errorf("weft doctor: %d %q %q", status, out, stderr)
	}
	for _, line := range []string{"doctor --peer host.invalid", "doctor --config /no/such/file --socket " + none, "doctor now", "doctor --no"} {
		if status, out, stderr := weft(strings.Fields(line)...); status != exitUsage || out != "" || stderr == "" {
			t.Errorf("weft %s: %d %q %q; expected status %d", line, status, out, stderr, exitUsage)
		}
	}
}
