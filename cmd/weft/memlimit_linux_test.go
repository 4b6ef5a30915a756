package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/refusal/refusaltest"
	"github.com/weftnet/weft/internal/testenv"
)

// weftInCgroup runs a command line to its end as a process in a cgroup.
func weftInCgroup(t *testing.T, procs []string, args ...string) (status int, stderr string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const enter = `for f in $PROCS; do echo $$ >"$f" || exit 99; done; exec "$0" "$@"`
	c := exec.Command("sh", append([]string{"-c", enter, self}, args...)...)
	var errs bytes.Buffer
	c.Env, c.Stderr = append(os.Environ(), asWeft+"=1", "PROCS="+strings.Join(procs, " ")), &errs
	err = c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), errs.String()
}

// A server once lent more than the limit of its container, and was killed while a client wrote.
func TestAServerLargerThanItsContainerIsRefusedAtStart(t *testing.T) {
	procs := refusaltest.Cgroup(t, 100<<20)
	socket := t.TempDir() + "/a.sock"
	startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0")
	for name, at := range map[string][]string{"a NIC of its own": {"--listen", testenv.Loopback(t)}, "a daemon elsewhere": {"--socket", socket}} {
		status, stderr := weftInCgroup(t, procs, append([]string{"mem", "serve", "--name", "mem/0", "--size", "256MiB"}, at...)...)
		for _, want := range []string{"weft: netmem: 32912 pages of 8192 bytes: ", " bytes of memory; the cgroup limit 100 MiB (/", "available; raise the limit of the container, service or job, or want less"} {
			if status != exitFailed || !strings.Contains(stderr, want) {
				t.Errorf("%s: status %d, %q; expected %q in it", name, status, stderr, want)
			}
		}
	}
}
