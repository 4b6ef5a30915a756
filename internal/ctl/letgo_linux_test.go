package ctl

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// A daemon keeps the descriptors of a client until it has answered the request.
func TestDescriptorsThatCameAreLetGoOnce(t *testing.T) {
	daemon, c := accepted(t)
	daemon.TakeMemory()
	memory := lastingMemory(t)
	before := openFiles(t)
	for range 3 {
		if err := c.p.send(&Request{Version: Version, Op: OpRegister, Given: &Register{Bytes: 1}}, memory); err != nil {
			t.Fatal(err)
		}
		r, err := daemon.Receive()
		if err != nil || !daemon.Holds() {
			t.Fatalf("%+v, %v; held: %v", r, err, daemon.Holds())
		}
		given := r.Given.FD
		daemon.LetGo()
		if daemon.Holds() {
			t.Error("a descriptor is held")
		}
		f, err := os.Open(os.DevNull) // may get the number
		if err != nil {
			t.Fatal(err)
		}
		daemon.LetGo()
		if _, err := f.Stat(); err != nil {
			t.Errorf("descriptor %d is closed twice: %v", given, err)
		}
		f.Close()
	}
	closedAgain(t, "three requests", before)
	if _, err := c.c.Write([]byte(strings.Repeat(" ", maxProcessRequest+1))); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Receive(); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a long request of a process: %v", err)
	}
}
