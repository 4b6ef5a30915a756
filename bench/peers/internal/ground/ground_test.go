package ground

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

func TestAProgramTellsHowItFailed(t *testing.T) {
	out, err := Here().Program(t.Context(), 0, "sh", "-c", "echo half; echo no wind >&2; exit 3").Output()
	if out != "half\n" || err == nil || !strings.Contains(err.Error(), "no wind") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("printed %q, error %v", out, err)
	}
	if _, err := Here().Program(t.Context(), 0, "/no/such/program").Output(); err == nil {
		t.Error("a program that is not there ran")
	}
}

func TestAProgramEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	p := Here().Program(ctx, 0, "sh", "-c", "echo ready; sleep 1000 & wait")
	if line, err := p.StartServer(); err != nil || line != "ready" {
		t.Fatalf("line %q, error %v", line, err)
	}
	cancel(errors.New("time is over"))
	select {
	case <-p.Ended():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if err := p.Failure(); err == nil || !strings.Contains(err.Error(), "time is over") {
		t.Errorf("error %v", err)
	}
}

func TestAServerThatSaysNothingIsAnError(t *testing.T) {
	if _, err := Here().Program(t.Context(), 1, "sh", "-c", "echo alas >&2").StartServer(); err == nil || !strings.Contains(err.Error(), "said nothing") {
		t.Errorf("error %v", err)
	}
}

func TestTwoHostsReachEachOther(t *testing.T) {
	s, err := Between(true, 0)
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Hosts() || s.Addr(0) == s.Addr(1) {
		t.Errorf("hosts at %s and %s", s.Addr(0), s.Addr(1))
	}
	for place := range 2 {
		out, err := s.Program(t.Context(), place, "cat", "/proc/self/net/fib_trie").Output()
		if err != nil || !strings.Contains(out, s.Addr(place)) || strings.Contains(out, s.Addr(1-place)+"\n") {
			t.Errorf("a program at place %d sees no address of its own, or another's: %v", place, err)
		}
	}
}

// If Sweep did anything here, it would end other users' processes.
func TestOutsideASpaceOfItsOwnNothingIsSwept(t *testing.T) {
	p := Here().Program(t.Context(), 0, "sh", "-c", "echo here; sleep 1000")
	if _, err := p.StartServer(); err != nil {
		t.Fatal(err)
	}
	defer p.End()
	Sweep(t.Context())
	select {
	case <-p.Ended():
		t.Error("it was swept")
	default:
	}
}

func TestAListenerIsFoundInTheKernelsTables(t *testing.T) {
	const tcp = "  sl  local_address rem_address   st\n   0: 0100007F:0BB8 00000000:0000 0A 0\n   1: 0100007F:0BB9 00000000:0000 01 0\n"
	for port, want := range map[int]bool{3000: true, 3001: false, 3002: false} {
		if hasPort(tcp, "tcp", port) != want {
			t.Errorf("port %d: %v, want %v", port, !want, want)
		}
	}
	if !hasPort("   0: 0100007F:0BB8 00000000:0000 07 0\n", "udp", 3000) {
		t.Error("a UDP socket was not found")
	}
}

func TestWhoEndsBeforeListeningIsNotWaitedFor(t *testing.T) {
	p := Here().Program(t.Context(), 1, "sh", "-c", "echo out of ports >&2; exit 1")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitPort(t.Context(), "tcp", 1); err == nil || !strings.Contains(err.Error(), "out of ports") {
		t.Errorf("error %v", err)
	}
}
