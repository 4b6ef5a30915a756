package vni

import "testing"

// QNIX-28: the status of a segment shows a reader from outside where the process posts and takes
// next.
func TestTheStatusOfASegmentFollowsItsProcess(t *testing.T) {
	s, p, n := newSegment(t, small)
	want := func(what string, tail, send, receive int) {
		t.Helper()
		if got := *s.status; got != (status{uint32(tail), uint32(send), uint32(receive)}) {
			t.Errorf("%s: the status is %+v; want %d, %d, %d", what, got, tail, send, receive)
		}
	}
	want("at first", 0, 0, 0)
	for i := 1; i < 2*small.Commands; i++ {
		if !p.Post(Command{Code: CodeBarrier}) {
			t.Fatalf("no room for command %d", i)
		}
		if _, ok := n.Next(); !ok {
			t.Fatalf("command %d is not there", i)
		}
		want("behind a command", i%small.Commands, 0, 0)
	}
	p.TakeSend()
	p.TakeSend()
	p.TakeReceive()
	want("with contexts taken", (2*small.Commands-1)%small.Commands, 2, 1)
}
