package udp

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// stage is the buffer in which frames are written and wait to be sent, next to one another:
//
//	buf ┌────────┬────────┬──────┬────────┬─ ─ ─ ─ ─ ─ ─┬─────┐
//	    │ sent   │ frame  │ frame│ frame  │ reservation │     │
//	    └────────┴────────┴──────┴────────┴─ ─ ─ ─ ─ ─ ─┴─────┘
//	              ▲ first                  ▲ tail
//
// When all frames have been sent it is empty again, and starts over. There is no wrapping
// around, so frames that are neighbours in order are neighbours in memory. While it is empty it
// may move to other memory, and it moves back when it is empty again.
type stage struct {
	buf    []byte // home, or the memory to which it has moved
	home   []byte // its own buffer
	away   bool   // buf is not home
	frames []staged
	peers  []ends // of the frames; a peer is repeated if frames of others lie in between
	mtu    int
	first  int        // frames[first:] are not sent yet
	tail   int        // where the next frame goes
	open   bool       // a reservation is open
	to     link.Addr  // of the open reservation
	from   netip.Addr // of the open reservation
	source netip.Addr // of the next reservation; invalid: the system chooses
	run    int        // consecutive frames reserved; 0: one frame of at most mtu bytes
	size   int        // bytes of each frame of the run
}

// ends holds the two addresses of a frame. If from is invalid, the system chooses it.
type ends struct {
	to   link.Addr
	from netip.Addr
}

// staged is one frame. A run makes many of them at once, so they are small.
type staged struct {
	to   int32 // index in the stage's peers
	off  int32
	size int32
}

func (f *staged) end() int { return int(f.off + f.size) }

// stageFrames is the most frames that are staged: as many as one sendmmsg takes.
const stageFrames = 64

func newStage(mtu int) stage {
	home := make([]byte, limits.StageBytes+mtu)
	return stage{
		buf:    home,
		home:   home,
		frames: make([]staged, 0, stageFrames),
		peers:  make([]ends, 0, stageFrames),
		mtu:    mtu,
	}
}

// move moves an empty stage to room, of limits.StageBytes.
func (s *stage) move(room []byte) { s.buf, s.away = room, true }

// full reports whether no more frames can be staged. The first one always can.
func (s *stage) full() bool {
	return len(s.frames) == stageFrames || s.tail > 0 && s.tail+s.mtu > limits.StageBytes
}

// abandon ends the open reservation, if there is one.
func (s *stage) abandon() {
	s.open = false
	s.done(0)
}

// reserve returns room for one frame, or nil. No reservation may be open.
func (s *stage) reserve(to link.Addr) []byte {
	from := s.takeSource()
	if s.full() {
		return nil
	}
	s.open, s.to, s.from, s.run = true, to, from, 0
	return s.buf[s.tail : s.tail+s.mtu : s.tail+s.mtu]
}

// commit makes the first n bytes of the reservation a frame.
func (s *stage) commit(n int) {
	if !s.open || s.run > 0 {
		panic("udp: Commit without Reserve")
	}
	if n < 0 || n > s.mtu {
		panic(fmt.Sprintf("udp: Commit of %d bytes: a frame has at most %d", n, s.mtu))
	}
	s.open = false
	s.add(s.peer(), n)
}

// add appends a frame of n bytes, which are in their place.
func (s *stage) add(peer int32, n int) {
	s.frames = append(s.frames, staged{peer, int32(s.tail), int32(n)})
	s.tail += n
}

// peer returns the index of the open reservation's peer.
func (s *stage) peer() int32 {
	if n := len(s.peers); n == 0 || s.peers[n-1].to != s.to || s.peers[n-1].from != s.from {
		s.peers = append(s.peers, ends{s.to, s.from})
	}
	return int32(len(s.peers) - 1)
}

// addr returns the destination of a frame.
func (s *stage) addr(f *staged) link.Addr { return s.peers[f.to].to }

// takeSource returns the source address of the next reservation, which is used once.
func (s *stage) takeSource() (from netip.Addr) {
	from, s.source = s.source, netip.Addr{}
	return from
}

// reserveRun returns room for up to n frames of size bytes, or nil. No reservation may be open.
func (s *stage) reserveRun(to link.Addr, size, n int) []byte {
	from := s.takeSource()
	if s.full() || size > s.mtu {
		return nil
	}
	s.open, s.to, s.from, s.size = true, to, from, size
	s.run = min(n, stageFrames-len(s.frames), (limits.StageBytes-s.tail)/size)
	end := s.tail + s.run*size
	return s.buf[s.tail:end:end]
}

// commitRun makes the first n of the reserved frames frames.
func (s *stage) commitRun(n int) {
	if !s.open || n < 0 || n > s.run {
		panic(fmt.Sprintf("udp: CommitRun of %d frames: %d were offered", n, s.run))
	}
	s.open = false
	if n == 0 {
		return
	}
	peer := s.peer()
	for range n {
		s.add(peer, s.size)
	}
}

// pending returns how many frames are not sent yet.
func (s *stage) pending() int { return len(s.frames) - s.first }

// waiting returns the frames that are not sent yet.
func (s *stage) waiting() []staged { return s.frames[s.first:] }

// batch returns how many of the waiting frames, from the ith on, may leave as one batch:
// neighbours for one address, all as long as the first, except for the last, which may be
// shorter. A frame without bytes would leave no trace in a batch.
func (s *stage) batch(i int) int {
	waiting := s.waiting()[i:]
	first := &waiting[0]
	bytes := int(first.size)
	for n := 1; n < len(waiting); n++ {
		f := &waiting[n]
		bytes += int(f.size)
		if f.size > first.size || f.size == 0 || bytes > Largest || f.to != first.to {
			return n
		}
		if f.size < first.size {
			return n + 1
		}
	}
	return len(waiting)
}

// done notes that the next n frames are sent, or given up. An open reservation stays where it
// is.
func (s *stage) done(n int) {
	s.first += n
	if s.first == len(s.frames) && !s.open {
		s.frames, s.peers, s.first, s.tail = s.frames[:0], s.peers[:0], 0, 0
		s.buf, s.away = s.home, false
	}
}
