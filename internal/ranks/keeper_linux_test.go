package ranks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/weftnet/weft/internal/cgroup"
)

// testKeeper is a keeper in a process of its own, whose ranks the test may orphan.
type testKeeper struct {
	cmd   *exec.Cmd
	lines chan string // what it and its ranks write
}

// startKeeper starts a keeper of two ranks of a program. It ends with the test.
func startKeeper(t *testing.T, g *cgroup.Group, attr *syscall.SysProcAttr, program string) *testKeeper {
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
	if err := k.cmd.Start(); err != nil {
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
		if left := EndOrphans(nil); len(left) > 0 {
			t.Errorf("processes are left: %+v", left)
		}
	})
	return k
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

// keeper runs a job as a keeper does, and never ends it. The arguments are the group in JSON, and a program.
func keeper(args []string) {
	var g *cgroup.Group
	if err := json.Unmarshal([]byte(args[0]), &g); err != nil {
		panic(err)
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
	s.Wait()
}
