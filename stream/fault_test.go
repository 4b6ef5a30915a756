package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// A host with a listening process is lost. A dial then reports that the host is unreachable, and
// an open stream to the host fails with a timeout.
func TestWhatALostHostFailsWithSaysSo(t *testing.T) {
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
	f.Serve(0, "a/0", acceptAll)
	f.Process(1, "b/0", func(p *sim.Process) error {
		d := &stream.Dialer{Process: p.Weft(), KeepAlive: 10 * time.Second}
		c, err := d.Dial(context.Background(), "a/0:x")
		if err != nil {
			return err
		}
		f.Partition(0)
		switch _, err = d.Dial(context.Background(), "a/0:x"); {
		case !errors.Is(err, syscall.EHOSTUNREACH) || !errors.Is(err, weft.ErrUnreachable) || errors.Is(err, syscall.ECONNREFUSED):
			return fmt.Errorf("a dial to a host that is not reached: %w", err)
		case strings.Contains(err.Error(), "\n"):
			return fmt.Errorf("more than one line: %w", err)
		}
		var timeout net.Error
		switch _, err = c.Read(make([]byte, 1)); {
		case !errors.Is(err, syscall.ETIMEDOUT) || !errors.As(err, &timeout) || !timeout.Timeout():
			return fmt.Errorf("a read of a stream whose peer is silent, timeout %v: %w", timeout, err)
		case strings.Contains(err.Error(), "\n"):
			return fmt.Errorf("more than one line: %w", err)
		}
		return nil
	})
	if err := f.Run(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
}

// Programs look for a failure of the kernel in *os.SyscallError, as in package net.
func TestWhatTheKernelTellsOverTCPIsAFailureOfASystemCall(t *testing.T) {
	a, b := pair(t, weft.Config{})
	l, err := stream.Listen(a, "x")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := joined(l, &stream.Dialer{Process: b})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.(*stream.Conn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, written := c.Write(make([]byte, 1))
	_, dialled := stream.Dial(t.Context(), b, "a/0:nothing")
	_, taken := stream.Listen(a, "x")
	for call, err := range map[string]error{"write": written, "connect": dialled, "bind": taken} {
		of, ok := err.(*net.OpError)
		if !ok {
			t.Fatalf("%T: %v; expected a *net.OpError", err, err)
		}
		if failed, ok := of.Err.(*os.SyscallError); !ok || failed.Syscall != call {
			t.Errorf("%v, of which the error is a %T; expected a failure of the call %s", err, of.Err, call)
		}
	}
}
