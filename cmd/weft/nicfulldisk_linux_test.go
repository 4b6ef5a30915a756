package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	weftlib "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testenv"
)

// A NIC whose capture can no longer be written warns once, counts what the file lacks, and
// serves its processes and peers. SIGHUP does not end it, since it has no terminal: it reloads.
func TestANICOutlivesAFullDiskUnderItsCapture(t *testing.T) {
	ok := t.Run("a limit of file sizes", func(t *testing.T) {
		nic := exec.Command("/proc/self/exe")
		n := startCapturing(t, nic, t.TempDir())
		limit := unix.Rlimit{Cur: 32 << 10, Max: 32 << 10}
		if err := unix.Prlimit(nic.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		n.outlives("file too large")
	})
	if !ok {
		return // a minute has passed already
	}
	t.Run("a small file system", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root mounts a file system")
		}
		disk, self := t.TempDir(), fmt.Sprintf("/proc/%d/exe", os.Getpid())
		nic := exec.Command("/bin/sh", "-c", `mount -t tmpfs -o size=32k none "$0" && exec "$@"`, disk, self)
		// the mount ends with the NIC
		nic.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		startCapturing(t, nic, disk).outlives("no space left on device")
	})
}

// capturing is a NIC that logs only warnings and captures its frames, and a peer of it.
type capturing struct {
	t    *testing.T
	nic  *exec.Cmd
	log  lockedBuffer
	here string // the sockets
	peer string
	file string // the configuration of the NIC
}

// startCapturing starts nic, to which it adds the arguments, and a peer. The capture is in the
// directory disk.
func startCapturing(t *testing.T, nic *exec.Cmd, disk string) *capturing {
	t.Helper()
	dir := t.TempDir()
	n := &capturing{t: t, nic: nic, here: filepath.Join(dir, "0.sock"), peer: filepath.Join(dir, "1.sock")}
	addrs := []string{testenv.Loopback(t), testenv.Loopback(t)}
	var args [2][]string
	for i := range args {
		text := fmt.Sprintf("id = %q\nlisten = %q\n", nicIDs[i], addrs[i])
		if i == 0 {
			text += fmt.Sprintf("log = \"warn\"\ncapture = %q\n", filepath.Join(disk, "nic.pcapng"))
		}
		for k := range args {
			text += boundNode(t, k, filepath.Join(dir, fmt.Sprint(k)), addrs[k])
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.toml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args[i] = []string{"--config", file, "--socket", filepath.Join(dir, fmt.Sprintf("%d.sock", i)), "--state-dir", filepath.Join(dir, fmt.Sprint(i))}
	}
	startNIC(t, args[1]...)
	n.file = filepath.Join(dir, "0.toml")
	nic.Args = append(append(nic.Args, "nic"), args[0]...)
	nic.Env = append(os.Environ(), asWeft+"=1")
	nic.Stderr = &n.log
	if nic.SysProcAttr == nil {
		nic.SysProcAttr = &syscall.SysProcAttr{}
	}
	nic.SysProcAttr.Setsid = true // without a terminal
	// otherwise a child ignores SIGHUP if the tests are run by nohup
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	err := nic.Start()
	signal.Reset(syscall.SIGHUP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Process.Kill(); nic.Wait() })
	eventually(t, "the NICs know one another", func() bool {
		_, out, _ := weft("nodes", "--socket", n.here)
		return strings.Contains(out, " up ")
	})
	return n
}

// exchange sends 200 messages of 1,000 bytes to the peer.
func (n *capturing) exchange(name string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	var both [2]*weftlib.Process
	for i, socket := range []string{n.here, n.peer} {
		p, err := weftlib.Attach(ctx, weftlib.AttachConfig{Socket: socket, Name: weftlib.Name{App: name, Index: uint32(i)}})
		if err != nil {
			n.t.Fatal(err)
		}
		defer p.Close()
		both[i] = p
	}
	for i, p := range both {
		if _, err := p.WaitName(ctx, both[1-i].Name()); err != nil {
			n.t.Fatal(err)
		}
	}
	var b [1000]byte
	for range 200 {
		if err := both[0].Send(ctx, both[1].Name(), 1, b[:]); err != nil {
			n.t.Fatal(err)
		}
		if m, err := both[1].Recv(ctx, both[0].Name(), 1, b[:]); err != nil || m.Len != len(b) {
			n.t.Fatal(m, err)
		}
	}
}

// logs makes the NIC reload with another log level.
func (n *capturing) logs(level string) {
	n.t.Helper()
	text, err := os.ReadFile(n.file)
	if err == nil {
		err = os.WriteFile(n.file, []byte(strings.Replace(string(text), `log = "warn"`, fmt.Sprintf("log = %q", level), 1)), 0o600)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.nic.Process.Signal(syscall.SIGHUP); err != nil {
		n.t.Fatal(err)
	}
}

// outlives fills the disk, and checks whether the NIC goes on.
func (n *capturing) outlives(cause string) {
	t := n.t
	t.Helper()
	n.exchange("first")
	eventually(t, "the NIC warns", func() bool { return strings.Contains(n.log.String(), "level=WARN") })
	n.logs("info")
	eventually(t, "the NIC hears of SIGHUP", func() bool { return strings.Contains(n.log.String(), "log: warn → info") })
	n.exchange("second")
	eventually(t, "what is not in the file is counted", func() bool {
		return strings.Contains(must(t, "stat", "--socket", n.here), "link_capture_missed")
	})
	if status, _, stderr := weft("nic", "stop", "--socket", n.here); status != 0 {
		t.Errorf("weft nic stop: %d %q", status, stderr)
	}
	_ = n.nic.Wait() // it logs the state of the capture
	said := n.log.String()
	if strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, cause+": the file has ") || strings.Contains(said, "panic") {
		t.Errorf("the NIC has said\n%s", said)
	}
}
