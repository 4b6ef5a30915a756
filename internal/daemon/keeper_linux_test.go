package daemon_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
)

// keeperArgument makes the test binary a keeper, which does what the argument after it says.
const keeperArgument = "a-keeper"

func isKeeper() bool { return len(os.Args) == 3 && os.Args[1] == keeperArgument }

// keeping returns the command of such a keeper.
func keeping(how string) []string { return []string{"/proc/self/exe", keeperArgument, how} }

// keep is the keeper of a job in these tests. It starts no ranks unless how says so.
func keep(how string) error {
	l, err := ctl.OpenKeeperLink()
	if err != nil {
		return err
	}
	m, err := l.Told()
	if err == nil && m.Await != nil {
		m, err = l.Told()
	}
	if err != nil {
		return err
	}
	switch how {
	case "refuses":
		err = l.Answer(&ctl.FromKeeper{Refusals: []ctl.Refusal{
			{What: ctl.RefusedDir, Text: "no directory " + m.Begin.Reserve.Dir, Cure: "make it"},
			{What: ctl.RefusedProgram, Text: "no program " + m.Begin.Reserve.Program, Cure: "install it"},
		}})
	case "tells": // its environment
		dir, _ := os.Getwd()
		sid, _ := unix.Getsid(0)
		groups, _ := os.Getgroups()
		err = l.Answer(&ctl.FromKeeper{Refusals: []ctl.Refusal{{What: ctl.RefusedHost, Text: fmt.Sprint("uid ", os.Getuid(), " gid ", os.Getgid(),
			" groups ", groups, " leader ", sid == os.Getpid(), " dir ", dir, " ", strings.Join(os.Environ(), " "))}}})
	case "silent":
		hang()
	case "dies":
		fmt.Fprintln(os.Stderr, "no memory for a keeper")
		os.Exit(3)
	case "nonsense":
		for fd := 3; fd < 16; fd++ { // one of these is the link
			_, _ = unix.Write(fd, []byte(`{"ready":7}`))
		}
		hang()
	default:
		err = keepOn(l, m.Begin, how)
	}
	time.Sleep(time.Minute) // the daemon ends a keeper that refuses
	return err
}

// hang never returns. A select without cases would be enough, but the runtime ends a program in
// which no goroutine can run, and whether one can is chance.
func hang() error {
	for {
		time.Sleep(time.Hour)
	}
}

// keepOn attaches as a keeper does, says that it is ready, and does what the daemon says.
func keepOn(l *ctl.KeeperLink, b *ctl.KeeperBegin, how string) error {
	c, err := ctl.Dial(context.Background(), b.Socket)
	if err != nil {
		return err
	}
	r := b.Reserve
	if _, err := c.Attach(context.Background(), fmt.Sprintf("%s/%d", ctl.KeeperApplication(r.Job, r.Restart), 1+r.Host), nil); err != nil {
		return err
	}
	var ranks []ctl.RankInfo
	if how == "leaves-headless" {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), roleVariable+"=headless")
		if err := c.Start(); err != nil {
			return err
		}
	}
	if how == "starts" || how == "leaves" {
		if ranks, err = startRanks(r, how == "leaves"); err != nil {
			return err
		}
	}
	if err := l.Answer(&ctl.FromKeeper{Ready: true}); err != nil {
		return err
	}
	var pids []int
	for _, k := range ranks {
		pids = append(pids, k.PID)
	}
	if len(pids) > 0 {
		if err := l.Answer(&ctl.FromKeeper{Started: pids}); err != nil {
			return err
		}
	}
	for {
		m, err := l.Told()
		switch {
		case how == "stubborn" && err != nil:
			hang()
		case err == io.EOF, err == nil && (m.Kill != nil || m.Stops) && how != "stubborn":
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			os.Exit(0)
		case err != nil:
			return err
		case m.Report:
			if err := ctl.EachReport(ranks, l.Answer); err != nil {
				return err
			}
		}
	}
}

// startRanks starts processes that sleep. If left is set, each is in its own session, has an
// empty environment, and loses its parent.
func startRanks(r *ctl.Reserve, left bool) (all []ctl.RankInfo, err error) {
	for i := range r.Ranks {
		c := exec.Command("/bin/sleep", "600")
		if left {
			sleeps := fmt.Sprint("sleep 600.", os.Getppid())
			c = exec.Command("/bin/sh", "-c", "setsid env -i /bin/sh -c 'trap \"\" TERM HUP; "+sleeps+" & "+sleeps+"; :' >/dev/null 2>&1 &")
		}
		if err := c.Start(); err != nil {
			return nil, err
		}
		all = append(all, ctl.RankInfo{Rank: r.First + i, PID: c.Process.Pid, State: "sleeping"})
		if left {
			_ = c.Wait()
		}
	}
	return all, nil
}

// running reports whether a process runs.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
