package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testenv"
)

// If its NIC daemon has ended, a block device, a file or memory cannot be used any more. The
// process that serves it says so and ends.
func TestWhatServesNetworkMemoryEndsWithItsDaemon(t *testing.T) {
	addr := testenv.Loopback(t)
	runWeft(t, "mem/0 lends 64MiB at "+addr, "mem", "serve", "--name", "mem/0", "--size", "64MiB", "--listen", addr)
	for what, args := range map[string][]string{
		"nbd":   {"--unix", filepath.Join(t.TempDir(), "nbd.sock")},
		"mount": {t.TempDir()},
		"map":   {"--resident", "1MiB", "--unix", filepath.Join(t.TempDir(), "map.sock")},
	} {
		socket := filepath.Join(t.TempDir(), "a.sock")
		daemon, _ := startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0", "--node", addr)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var out, errs lockedBuffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, append([]string{"mem", what, "--server", "mem/0", "--size", "4MiB", "--socket", socket}, args...), &out, &errs)
		}()
		for !strings.Contains(out.String()+errs.String(), "1 copy of a page") && ctx.Err() == nil && len(ended) == 0 {
			time.Sleep(time.Millisecond)
		}
		if strings.Contains(errs.String(), "userfaultfd") || strings.Contains(errs.String(), "memfile: mount") {
			continue // not permitted here
		}
		if err := daemon.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if status := <-ended; ctx.Err() != nil || status != exitFailed || !strings.Contains(errs.String(), "the network memory is lost: ") {
			t.Errorf("weft mem %s, whose daemon has ended: status %d, in time: %v: %s", what, status, ctx.Err() == nil, errs.String())
		}
	}
}

// When a terminal is gone, both the shell and the kernel send SIGHUP. The commands still remove
// what they have made.
func TestWhatServesNetworkMemoryEndsInOrderWhenItsTerminalHangsUp(t *testing.T) {
	// otherwise a child ignores SIGHUP if the tests are run by nohup
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	at := filepath.Join(t.TempDir(), "nbd.sock")
	c := exec.Command("/proc/self/exe", append([]string{"mem", "nbd", "--size", "1MiB", "--unix", at}, pages(t, 1, "16MiB")...)...)
	var said lockedBuffer
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), asWeft+"=1"), &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	await(t, "what serves", func() bool { return strings.Contains(said.String(), " serves 1MiB ") })
	for range 2 {
		_ = c.Process.Signal(syscall.SIGHUP) // fails if it has ended by the first
		time.Sleep(time.Millisecond)         // two that come at once count as one
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, said.String())
	}
	if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// The reader of the log of a NIC or of a proxy, or of the report of a block device, may end
// first. The command goes on, because others use it, and ends in order.
func TestWhatOthersUseOutlivesTheReadersOfItsOutput(t *testing.T) {
	nbd, nic, clients := filepath.Join(t.TempDir(), "nbd.sock"), filepath.Join(t.TempDir(), "nic.sock"), filepath.Join(t.TempDir(), "clients.sock")
	for at, args := range map[string][]string{
		nbd:     append([]string{"mem", "nbd", "--size", "1MiB", "--unix", nbd}, pages(t, 1, "16MiB")...),
		nic:     {"nic", "--listen", "127.0.0.1:0", "--socket", nic},
		clients: {"proxy", "--listen", "127.0.0.1:0", "--from", clients, "--to", "web/0:http"},
	} {
		c := exec.Command("/proc/self/exe", args...)
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader.Close()
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), asWeft+"=1"), writer, writer
		err = c.Start()
		writer.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Process.Kill()
		await(t, "its socket", func() bool { _, err := os.Stat(at); return err == nil })
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("weft %s ended with %v", args[0], err)
		}
		if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("weft %s has left its socket: %v", args[0], err)
		}
	}
}

// Root of a user namespace that does not own the mounts may not mount. The error says so, and
// does not recommend programs that help only users other than root.
func TestAMountThatIsNotPermittedSaysSo(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("there is no FUSE here that this test may open: ", err)
	}
	root := []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	dir := t.TempDir()
	c := exec.Command("/proc/self/exe", append([]string{"mem", "mount", "--size", "1MiB", dir}, pages(t, 1, "16MiB")...)...)
	c.Env = append(os.Environ(), asWeft+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: root, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := c.CombinedOutput()
	if c.Process == nil {
		t.Skip(err)
	}
	if want := "weft: memfile: mount " + dir + ": mount: operation not permitted: this process lacks CAP_SYS_ADMIN,"; c.ProcessState.ExitCode() != exitFailed ||
		!strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %s; expected %s", err, out, want)
	}
}
