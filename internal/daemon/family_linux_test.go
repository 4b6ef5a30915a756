package daemon

import (
	"os/exec"
	"testing"
	"time"
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
		p, err := readProcess(c.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.ended() {
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
