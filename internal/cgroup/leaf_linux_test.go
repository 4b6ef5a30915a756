package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain acts as a daemon in its own cgroup, if the first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "enable" {
		fmt.Println("enable:", enable(os.Args[2], os.Args[3]))
		fmt.Println("again:", enable(os.Args[2], os.Args[3]))
		h, err := own()
		fmt.Println("own:", h[""], aboveLeaf(h[""]), err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// unusedController returns the root of the unified hierarchy and one of its controllers.
func unusedController(t *testing.T) (root, controller string) {
	t.Helper()
	h, err := own()
	if err != nil {
		t.Fatal(err)
	}
	text, err := read(filepath.Join(h[""], "cgroup.controllers"))
	if h[""] == "" || err != nil {
		t.Skipf("no version 2 here: %v", err)
	}
	have := strings.Fields(text)
	control := filepath.Join(h[""], "cgroup.subtree_control")
	given, err := read(control)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"memory", "pids", "hugetlb"} {
		switch {
		case !slices.Contains(have, c):
		case slices.Contains(strings.Fields(given), c):
			return h[""], c
		case write(control, "+"+c) == nil:
			t.Cleanup(func() {
				if err := write(control, "-"+c); err != nil {
					t.Error(err)
				}
			})
			return h[""], c
		}
	}
	t.Skipf("%s gives its children no controller of %v", h[""], have)
	return "", ""
}

func TestADaemonMovesIntoALeafToGiveControllersToItsJobs(t *testing.T) {
	root, controller := unusedController(t)
	for _, c := range []struct {
		name  string
		other bool // another process is in the daemon's cgroup
	}{{"alone", false}, {"with a foreign process", true}} {
		t.Run(c.name, func(t *testing.T) {
			service := filepath.Join(root, fmt.Sprintf("weft-test-leaf-%d", os.Getpid()))
			if err := os.Mkdir(service, 0o755); err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() {
				if err := removeDirs(service); err != nil {
					t.Error(err)
				}
			})
			inside, err := os.Open(service)
			if err != nil {
				t.Fatal(err)
			}
			defer inside.Close()
			start := func(argv ...string) (*exec.Cmd, *bytes.Buffer) {
				cmd, out := exec.Command(argv[0], argv[1:]...), new(bytes.Buffer)
				cmd.Stdout = out
				cmd.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(inside.Fd())}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				return cmd, out
			}
			if c.other {
				foreign, _ := start("/bin/sleep", "1000")
				defer func() {
					_ = foreign.Process.Kill()
					_ = foreign.Wait()
				}()
			}
			daemon, out := start("/proc/self/exe", "enable", service, controller)
			if err := daemon.Wait(); err != nil {
				t.Fatal(err)
			}
			leaf := filepath.Join(service, leafDir)
			want := fmt.Sprintf("enable: <nil>\nagain: <nil>\nown: %s %s <nil>\n", leaf, service)
			if c.other {
				want = fmt.Sprintf("enable: %[1]v\nagain: %[1]v\nown: %[2]s %[2]s <nil>\n", errors.Join(unix.EBUSY), service)
			}
			if out.String() != want {
				t.Errorf("the daemon says\n%s; expected\n%s", out, want)
			}
		})
	}
}
