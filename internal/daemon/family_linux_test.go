package daemon

import (
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/procstat"
)

func TestAnEndedChildIsFoundWithoutProc(t *testing.T) {
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Wait() }()
	if childless() {
		t.Error("this process has a child; childless denies it")
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p, there := procstat.Read(c.Process.Pid)
		if !there {
			t.Fatal("true is not among the processes, though nobody has reaped it")
		}
		if p.Ended() {
			break
		}
		if time.Now().After(end) {
			t.Fatal("true has not ended within a minute")
		}
	}
	if pid := endedChild(); pid != c.Process.Pid {
		t.Errorf("the ended child is %d; expected %d", pid, c.Process.Pid)
	}
	if childless() {
		t.Error("a child that nobody has reaped is no child to childless")
	}
}

// A keeper may be forked while the leftovers of another one are searched. It is a child like
// those; if it were taken for one of them, it would be killed.
func TestAKeeperThatStartsMeanwhileIsNoLeftover(t *testing.T) {
	f := family{own: make(map[int]bool), elder: make(map[int]bool)}
	for pid, p := range processTable() {
		if p.Parent == os.Getpid() {
			f.elder[pid] = true
		}
	}
	since := startOf(os.Getpid())
	var keepers []*exec.Cmd
	var starting sync.WaitGroup
	started := make(chan struct{})
	starting.Go(func() {
		defer close(started)
		for range 100 {
			c := exec.Command("/bin/sleep", "600")
			if err := f.start(c); err != nil {
				t.Error(err)
				return
			}
			keepers = append(keepers, c)
		}
	})
	defer func() {
		starting.Wait()
		for _, c := range keepers {
			_ = c.Process.Kill()
			_ = f.wait(c)
		}
	}()
	for {
		for pid := range f.leftovers(since, os.Getuid()) {
			t.Errorf("process %d is a keeper; it counts as a leftover", pid)
		}
		select {
		case <-started:
			return
		default:
		}
	}
}
