package proxy

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// Unread bytes are in front of each end.
func TestASourceHasFailedWhenItIsResetAndNotWhenItEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	source, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	from, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := io.WriteString(source, "unread"); err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		what string
		c    net.Conn
	}{{"its direction", source}, {"the other", from}} {
		if err := closeWrite(end.c); err != nil {
			t.Fatal(err)
		}
		if err := failed(from); err != nil {
			t.Errorf("a source behind the end of %s: %v", end.what, err)
		}
	}

	source, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	from, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if _, err := io.WriteString(source, "unread"); err != nil {
		t.Fatal(err)
	}
	reset(source)
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		err = failed(from)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a source that is reset: %v", err)
	}
}
