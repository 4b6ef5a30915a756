//go:build linux && !portable

package udp

import (
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// streaming returns a driver that gets a stream in large buffers, by its direct socket, and two
// that send.
func streaming(t *testing.T) (from, to, other *Driver) {
	t.Helper()
	offloading(t)
	from, to = awakePair(t)
	other, _ = awakePair(t)
	say(t, to, from, 3*limits.DirectAfter)
	turned(t, to, from)
	for range 20 {
		stream(from, to, 20)
		drain(t, to, &collect{}, 20)
	}
	turned(t, to, from)
	if to.sock.in.mode != modeBulk {
		t.Fatal("frames that come in batches are not taken as such")
	}
	return from, to, other
}

// stream sends full frames, in batches.
func stream(from, to *Driver, frames int) {
	for range frames {
		f := from.Reserve(to.Addr())
		if f == nil {
			from.Flush(0)
			f = from.Reserve(to.Addr())
		}
		from.Commit(min(1472, len(f)))
	}
	from.Flush(0)
}

// before counts the frames that arrive before the first one of a certain sender.
type before struct {
	who    link.Addr
	frames int
	seen   bool
}

func (c *before) Receive(_ clock.Time, from link.Addr, _ []byte) {
	if c.seen = c.seen || from == c.who; !c.seen {
		c.frames++
	}
}

func (c *before) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

func TestAFrameOfAnotherDoesNotWaitLongBesideAStream(t *testing.T) {
	// One look has ended when the frame arrives, and the next look brings its buffers first.
	const most = (asideBusy + 2*fullBuffers) * 45
	from, to, other := streaming(t)
	for range 20 {
		c := &before{who: other.Addr()}
		for range 10 { // the looks aside find nothing, and become rare
			stream(from, to, 352)
			for range 30 {
				to.Poll(0, c)
			}
		}
		stream(from, to, 352)
		other.Reserve(to.Addr())
		other.Commit(5)
		other.Flush(0)
		c.frames = 0
		for i := 0; i < 10_000 && !c.seen; i++ {
			to.Poll(0, c)
			for range 8 {
				stream(from, to, 44)
			}
		}
		if !c.seen || c.frames > most {
			t.Fatalf("%d frames of a stream came before one of another sender, %v; want %d at most", c.frames, c.seen, most)
		}
	}
}

// The buffers of a look for a lone frame are as long as a frame: a coalesced buffer would be cut
// short.
func TestNothingThatWasCoalescedIsLostWhenAStreamEnds(t *testing.T) {
	_, to, other := streaming(t)
	in := &collect{}
	sent := false
	for i := range 3 * bulkPolls {
		to.Poll(clock.Time(i), in)
		if !sent && to.sock.in.quiet == bulkPolls-3 && to.sock.direct.turn > 6 {
			stream(other, to, 40)
			sent = true
		}
	}
	if !sent || len(in.frames) != 40 || to.Stats().Oversize > 0 {
		t.Errorf("of 40 frames, sent %v, by the listening socket just when bulk ended, %d came; %d were cut short", sent, len(in.frames), to.Stats().Oversize)
	}
	for range 3 * bulkPolls {
		to.Poll(0, in)
	}
	if to.sock.in.mode != modeLone {
		t.Errorf("nothing comes any more, and the mode is %d", to.sock.in.mode)
	}
}

// Bulk ends within a few polls. Frames may arrive between any two of them, by either socket.
func TestNothingThatWasCoalescedIsLostWheneverItComes(t *testing.T) {
	for _, busy := range []bool{false, true} {
		for when := range 24 {
			from, to, other := streaming(t)
			if busy {
				other = from
			}
			in := &collect{}
			for i, since := 0, -1; i < 3*bulkPolls; i++ {
				if since == when {
					stream(other, to, 40)
				}
				to.Poll(clock.Time(i), in)
				if since >= 0 || to.sock.in.quiet == bulkPolls-10 {
					since++
				}
			}
			if n := to.Stats().Oversize; len(in.frames) != 40 || n > 0 {
				t.Errorf("sent by the busy peer, %v, %d polls later: of 40 frames %d came; %d were cut short", busy, when, len(in.frames), n)
			}
		}
	}
}

// The kernel reports an ICMP error of a peer's host before it returns the peer's frames.
func TestASocketWithAnErrorIsNotTakenForEmpty(t *testing.T) {
	from, to, _ := streaming(t)
	in := &collect{}
	for range 100 {
		to.Poll(0, in)
	}
	stream(from, to, 40)
	peer := from.Addr()
	from.Close()
	to.Reserve(peer)
	to.Commit(5)
	to.Flush(0) // the peer's host refuses it
	o := &to.sock.direct
	to.sock.in.quiet, to.sock.in.empty, o.turn, o.first = bulkPolls, [2]bool{true, false}, asideBusy, 0
	for range 100 {
		to.Poll(0, in)
	}
	if s := to.Stats(); len(in.frames) != 40 || s.Oversize > 0 || s.Refused == 0 {
		t.Errorf("of 40 frames of a peer that has gone %d came; %+v", len(in.frames), s)
	}
}

// exchange sends messages of so many frames, one after the other, and polls a little after each,
// as a receiver does that waits for the next.
func exchange(t *testing.T, from, to *Driver, messages, frames int) {
	t.Helper()
	for range messages {
		stream(from, to, frames)
		in := &collect{}
		drain(t, to, in, frames)
		for range 5 {
			to.Poll(0, in)
		}
	}
}

func TestMessagesOfAFewFramesComeWholeAndLoneFramesAsTheyDid(t *testing.T) {
	offloading(t)
	from, to := awakePair(t)
	exchange(t, from, to, 10*bulkRuns, 1)
	if to.sock.in.mode == modeBulk {
		t.Error("lone frames are taken as batches")
	}
	exchange(t, from, to, 2*bulkRuns, 3)
	if to.sock.in.mode != modeBulk {
		t.Fatal("messages of three frames are not taken as batches")
	}
	for range 100 {
		stream(from, to, 3)
		for in := (&collect{}); len(in.frames) == 0; {
			if to.Poll(0, in); len(in.frames) > 0 && len(in.frames) < 3 {
				t.Fatalf("a poll brought %d of 3 frames", len(in.frames))
			}
		}
	}
	for in := (&collect{}); to.sock.in.mode == modeBulk; {
		to.Poll(0, in) // until nothing has arrived for long
	}
	exchange(t, from, to, 10*bulkRuns, 1)
	if to.sock.in.mode == modeBulk {
		t.Error("lone frames are taken as batches when they come behind messages of several")
	}
}

func TestLoneFramesOfSeveralPeersAreNoBatches(t *testing.T) {
	offloading(t)
	from, to := awakePair(t)
	other, _ := awakePair(t)
	for range 10 * bulkRuns {
		stream(from, to, 1)
		stream(other, to, 1)
		drain(t, to, &collect{}, 2)
		for range 5 {
			to.Poll(0, &collect{})
		}
		if to.sock.in.mode == modeBulk {
			t.Fatal("lone frames of two peers are taken as batches")
		}
	}
}
