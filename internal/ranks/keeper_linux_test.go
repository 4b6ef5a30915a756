package ranks

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/cgroup"
)

// testKeeper is a keeper in a process of its own, whose ranks the test may orphan.
type testKeeper struct {
	cmd   *exec.Cmd
	lines chan string // of its output and of its ranks' output
}

// startKeeper starts a keeper of two ranks of a program. It ends with the test.
func startKeeper(t *testing.T, program string) *testKeeper {
	t.Helper()
	return newKeeper(t, nil, nil, program, (*exec.Cmd).Start)
}

// startKeeperIn does so in a control group, as a daemon does: from a thread that ends afterwards.
func startKeeperIn(t *testing.T, g *cgroup.Group, attr *syscall.SysProcAttr, program string) *testKeeper {
	t.Helper()
	return newKeeper(t, g, attr, program, func(c *exec.Cmd) error {
		failed := make(chan error)
		go func() {
			runtime.LockOSThread()
			done, err := g.EnterKeeper(c.SysProcAttr)
			if err == nil {
				err = c.Start()
				done()
			}
			failed <- err
		}()
		return <-failed
	})
}

func newKeeper(
	t *testing.T, g *cgroup.Group, attr *syscall.SysProcAttr, program string, start func(*exec.Cmd) error,
) *testKeeper {
	t.Helper()
	group, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	k := &testKeeper{lines: make(chan string, 1000)}
	k.cmd = exec.Command("/proc/self/exe", "program:keeper", string(group), program)
	k.cmd.SysProcAttr, k.cmd.Stderr = attr, os.Stderr
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(k.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(k.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			k.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = k.cmd.Process.Kill()
		_ = k.cmd.Wait()
		endOrphans(t)
	})
	return k
}

// endOrphans ends and reaps the processes that a dead keeper has left to this process.
func endOrphans(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		newHunter().sweep()
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			return
		case pid == 0 && time.Now().After(deadline):
			t.Fatalf("processes are left: %+v", descendants(os.Getpid()))
		}
	}
}

// await returns the first n lines that begin with a word.
func (k *testKeeper) await(t *testing.T, word string, n int) (found []string) {
	t.Helper()
	for line := range k.lines {
		if strings.HasPrefix(line, word+" ") {
			if found = append(found, line); len(found) == n {
				return found
			}
		}
	}
	t.Fatalf("the keeper has ended without %d lines %q", n, word)
	return nil
}

// pids returns the pids of the ranks.
func (k *testKeeper) pids(t *testing.T) (pids [2]int) {
	t.Helper()
	if _, err := fmt.Sscanf(k.await(t, "pids", 1)[0], "pids %d %d", &pids[0], &pids[1]); err != nil {
		t.Fatal(err)
	}
	return pids
}

// keeper runs a job as a keeper does, and ends it after SIGUSR1. The arguments are the group in
// JSON, and a program.
func keeper(args []string) {
	var g *cgroup.Group
	if err := json.Unmarshal([]byte(args[0]), &g); err != nil {
		panic(err)
	}
	if g != nil {
		if err := g.LimitMemory(1 << 30); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			panic(err)
		}
	}
	s, err := Start(Config{
		Program: "/proc/self/exe", Argv: []string{"rank", "program:" + args[1]}, Ranks: []int{0, 1}, Dir: "/",
		Cgroup: g,
		Output: func(_, _ int, b []byte) error { _, err := os.Stdout.Write(b); return err },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("pids", s.PIDs()[0], s.PIDs()[1])
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	<-c
	fmt.Println("left", s.End(0))
	hang()
}
