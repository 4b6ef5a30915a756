//go:build linux && !portable

package udp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
)

// awakePair returns two drivers whose user does not park.
func awakePair(tb testing.TB) (a, b *Driver) {
	tb.Helper()
	a, b = pairOf(tb, 1472)
	for _, d := range []*Driver{a, b} {
		if d.sock.direct.fd < 0 {
			tb.Fatal("no direct socket:", d.Explain())
		}
		d.Awake()
	}
	return a, b
}

// say sends n frames from one driver to another, each in its own call, and waits until they
// arrive.
func say(t *testing.T, from, to *Driver, n int) {
	t.Helper()
	in := &collect{}
	for i := range n {
		text := fmt.Appendf(nil, "frame %d", i)
		f := from.Reserve(to.Addr())
		from.Commit(copy(f, text))
		from.Flush(0)
		drain(t, to, in, i+1)
		if !bytes.Equal(in.frames[i], text) {
			t.Fatalf("frame %d of %v for %v arrives as %q", i, from.Addr(), to.Addr(), in.frames[i])
		}
	}
	for range 3 * asideIdle {
		to.Poll(0, in)
	}
	if len(in.frames) != n {
		t.Fatalf("%d frames have arrived of %d", len(in.frames), n)
	}
}

// turned fails the test unless d's direct socket is turned to peer.
func turned(t *testing.T, d, peer *Driver) {
	t.Helper()
	if o := &d.sock.direct; !o.turned || o.peer != peer.Addr() {
		t.Fatalf("the direct socket is turned: %v, last to %v; want it to be to %v", o.turned, o.peer, peer.Addr())
	}
}

func resting(t *testing.T, d *Driver) {
	t.Helper()
	if o := &d.sock.direct; o.turned {
		t.Fatalf("the direct socket is turned to %v; want it to rest", o.peer)
	}
}

func TestABusyPeerIsSentToByTheDirectSocketAndNothingElseChanges(t *testing.T) {
	a, b := awakePair(t)
	say(t, a, b, limits.DirectAfter)
	resting(t, a)
	say(t, a, b, 100)
	turned(t, a, b)
	say(t, b, a, 100) // before and after the socket at the other end is turned
	turned(t, b, a)
	if s := a.Stats(); s.Turned != 1 || s.Direct != 100 {
		t.Errorf("turned %d times, %d frames left by it; want 1 and 100", s.Turned, s.Direct)
	}
	if s := a.Stats(); s.Refused+s.Unsendable+s.TooBig+s.Overrun != 0 {
		t.Errorf("%+v; want nothing refused or dropped", s)
	}
}

func TestALoneFrameForABusyPeerLeavesFromWhereItLies(t *testing.T) {
	a, b := awakePair(t)
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	in, before := &collect{}, a.Stats().Direct
	post := func(to *Driver, text string) {
		if a.Reserve(to.Addr()) == nil {
			t.Fatal("no room")
		}
		a.Post(0, []byte(text))
	}
	post(b, "one")
	drain(t, b, in, 1)
	if staged := a.out.buf[a.out.tail:]; string(in.frames[0]) != "one" || bytes.HasPrefix(staged, in.frames[0]) {
		t.Errorf("%q has come, staged before", in.frames[0])
	}
	a.Commit(copy(a.Reserve(b.Addr()), "two"))
	post(b, "three") // after it
	drain(t, b, in, 3)
	if string(in.frames[1]) != "two" || string(in.frames[2]) != "three" {
		t.Errorf("%q and %q have come; want two and three", in.frames[1], in.frames[2])
	}
	if n := a.Stats().Direct - before; n != 3 {
		t.Errorf("%d frames left by the direct socket; want 3", n)
	}
	_, c := pairOf(t, 1472)
	post(c, "four")
	var other collect
	drain(t, c, &other, 1)
	if string(other.frames[0]) != "four" {
		t.Errorf("%q has come to another; want four", other.frames[0])
	}
}

// The promises of a link hold for either socket, at either end.
func TestDriverWithDirectSocketsTurned(t *testing.T) {
	turn := func(d, to *Driver) {
		d.sock.direct.most, d.sock.direct.lead = to.Addr(), limits.DirectAfter
		d.turnDirect()
	}
	for _, ends := range []string{"sender", "receiver", "both"} {
		t.Run(ends, func(t *testing.T) {
			linktest.Run(t, linktest.Suite{
				Make: func(tb testing.TB) (link.Driver, link.Driver) {
					a, b := awakePair(tb)
					if ends != "receiver" {
						turn(a, b)
					}
					if ends != "sender" {
						turn(b, a)
					}
					if a.stats.Turned+b.stats.Turned == 0 {
						tb.Fatal("no direct socket is turned")
					}
					return a, b
				},
				Nobody: netip.MustParseAddrPort("127.0.0.1:1"),
			})
		})
	}
}

func TestIPv6HasADirectSocketToo(t *testing.T) {
	var ends [2]*Driver
	for i := range ends {
		d, err := Listen(Config{Addr: netip.MustParseAddrPort("[::1]:0"), MTU: 1452})
		if err != nil {
			t.Skip("this host has no IPv6:", err)
		}
		defer d.Close()
		d.Awake()
		ends[i] = d
	}
	say(t, ends[0], ends[1], 2*limits.DirectAfter)
	turned(t, ends[0], ends[1])
	say(t, ends[1], ends[0], 2*limits.DirectAfter)
}

func TestFramesOfOthersArriveWhileTheDirectSocketIsTurned(t *testing.T) {
	a, b := awakePair(t)
	c, d := pairOf(t, 1472)
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	in := &collect{}
	for i := range 50 {
		for j, from := range []*Driver{b, c, d} {
			f := from.Reserve(a.Addr())
			from.Commit(copy(f, fmt.Sprint(3*i+j)))
			from.Flush(0)
		}
		drain(t, a, in, 3*(i+1))
	}
	turned(t, a, b)
	say(t, a, c, 1) // a frame for another peer leaves as before
	say(t, a, b, 1)
	turned(t, a, b)
}

func TestTheDirectSocketFollowsWhoIsSentToMost(t *testing.T) {
	a, b := awakePair(t)
	c, d := pairOf(t, 1472)
	for range 3 * limits.DirectAfter {
		say(t, a, b, 1)
		say(t, a, c, 1)
		say(t, a, d, 1)
	}
	if s := a.Stats(); s.Turned != 0 {
		t.Errorf("turned %d times where three peers are sent to by turns", s.Turned)
	}
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	say(t, a, c, limits.DirectAfter+1)
	resting(t, a)
	say(t, a, c, limits.DirectAfter+1)
	turned(t, a, c)
	say(t, c, a, 10)
	say(t, b, a, 10)
}

// Messages of some kilobytes leave in a few frames each. The direct socket is turned to the peer
// that gets most of them, as for lone frames. It rests if several peers get them in turn, or if
// frames leave by dozens.
func TestTheDirectSocketIsTurnedToAPeerThatMessagesOfAFewFramesGoTo(t *testing.T) {
	offloading(t)
	const size = 1000
	for frames, turns := range map[int]bool{2: true, 3: true, shortBatch: true, shortBatch + 1: false} {
		a, b := awakePair(t)
		a.sock.lent.able = false
		_, c := pairOf(t, 1472)
		batches := func(n int, peers ...*Driver) {
			t.Helper()
			for range n {
				for _, to := range peers {
					in := &collect{}
					for i := range frames {
						f := a.Reserve(to.Addr())
						f[0] = byte(i)
						a.Commit(size)
					}
					a.Flush(0)
					drain(t, to, in, frames)
					for i, f := range in.frames {
						if len(f) != size || f[0] != byte(i) {
							t.Fatalf("batches of %d: frame %d has %d bytes and says %d", frames, i, len(f), f[0])
						}
					}
				}
			}
		}
		if batches(3*limits.DirectAfter, b, c); a.Stats().Turned != 0 {
			t.Errorf("batches of %d to two peers by turns: turned %d times", frames, a.Stats().Turned)
		}
		if batches(2*limits.DirectAfter, b); a.sock.direct.turned != turns {
			t.Errorf("batches of %d to one peer: turned is %v, want %v", frames, !turns, turns)
		}
		if batches(3*limits.DirectAfter, c); turns {
			turned(t, a, c)
		}
	}
}

// The kernel is not asked for the sender of a frame that can only be the peer's.
func TestWhoseAFrameIsIsRightHoweverTheDirectSocketTurns(t *testing.T) {
	a, b := awakePair(t)
	c, d := pairOf(t, 1472)
	r, in := rand.New(rand.NewPCG(1, 1)), &signed{t: t}
	sent, known := 0, 0
	for range 3000 {
		peer := []*Driver{b, c, d}[r.IntN(3)]
		switch r.IntN(8) {
		case 0:
			a.sock.direct.most, a.sock.direct.lead = peer.Addr(), limits.DirectAfter
			a.turnDirect()
		case 1, 2, 3:
			peer.Commit(copy(peer.Reserve(a.Addr()), peer.Addr().String()))
			peer.Flush(0)
			sent++
		default:
			if a.sock.direct.knows(a.sock.direct.fd) {
				known++
			}
			a.Poll(0, in)
		}
	}
	for range 10_000 {
		a.Poll(0, in)
	}
	if in.frames != sent || known == 0 {
		t.Errorf("%d frames have come of %d; the peer was known for %d polls", in.frames, sent, known)
	}
}

// signed takes frames that contain their sender's address.
type signed struct {
	t      *testing.T
	frames int
}

func (s *signed) Receive(_ clock.Time, from link.Addr, frame []byte) {
	if s.frames++; from.String() != string(frame) {
		s.t.Errorf("a frame of %s comes as from %v", frame, from)
	}
}

func (s *signed) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(s, now, from, frames, size)
}

// If no other peer sends, the other socket is asked seldom, and more often at once when one
// does.
func TestTheOtherSocketIsAskedTheLessTheLongerItHasNothing(t *testing.T) {
	a, b := awakePair(t)
	c, _ := pairOf(t, 1472)
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	in, o := &collect{}, &a.sock.direct
	asides := func(polls int) (n int) {
		for range polls {
			if o.first > 0 || o.turn <= 0 {
				n++
			}
			a.Poll(0, in)
		}
		return n
	}
	asides(1000)
	if n := asides(10 * (asideBusy + 1)); n != 10 {
		t.Errorf("%d looks aside in %d polls that find nothing; want 10", n, 10*(asideBusy+1))
	}
	c.Commit(copy(c.Reserve(a.Addr()), "somebody else"))
	c.Flush(0)
	for len(in.frames) == 0 {
		a.Poll(0, in)
	}
	if n := asides(5 * (asideIdle + 1)); n < 5 || n > 6 { // the first is at once
		t.Errorf("%d looks aside in %d polls behind a frame of another peer", n, 5*(asideIdle+1))
	}
}

// A parked poller watches one descriptor: it must announce all frames, also those of the peer
// that was busy.
func TestWhoParksWatchesOneDescriptor(t *testing.T) {
	a, b := awakePair(t)
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	in := &collect{}
	send := func() {
		f := b.Reserve(a.Addr())
		b.Commit(copy(f, "wake up"))
		b.Flush(0)
	}
	send() // it waits in the direct socket when a is about to park
	if !a.Sleep() {
		t.Fatal("Sleep says that nothing waits")
	}
	drain(t, a, in, 1)
	for a.Sleep() {
		a.Poll(0, in)
	}
	resting(t, a)
	send()
	fds := []unix.PollFd{{Fd: int32(a.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 60_000); n != 1 || err != nil {
		t.Fatalf("poll says %d, %v; want the descriptor to announce a frame", n, err)
	}
	drain(t, a, in, 2)
	say(t, a, b, 3*limits.DirectAfter)
	resting(t, a) // since a was not told that it is awake
	a.Awake()
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
}

func TestAUserWhoDoesNotSayThatItIsAwakeNeverHasTheDirectSocketTurned(t *testing.T) {
	a, b := pairOf(t, 1472)
	say(t, a, b, 3*limits.DirectAfter)
	if s := a.Stats(); s.Turned != 0 {
		t.Errorf("turned %d times", s.Turned)
	}
}

// While the direct socket is turned, and between bind and connect, the kernel may put any
// sender's frame there.
func TestAFrameThatWaitsInTheDirectSocketIsNotLostHoweverItTurns(t *testing.T) {
	a, b := awakePair(t)
	c, _ := pairOf(t, 1472)
	in := &collect{}
	for round, turn := range []func(){
		func() { say(t, a, c, 2*limits.DirectAfter) }, // to rest, and to another peer
		func() { a.Sleep() },
		a.restDirect,
	} {
		a.Awake()
		say(t, a, b, 3*limits.DirectAfter)
		turned(t, a, b)
		for i := range 5 {
			f := b.Reserve(a.Addr())
			b.Commit(copy(f, fmt.Sprint(i)))
		}
		b.Flush(0)
		turn()
		drain(t, a, in, 5*(round+1))
	}
}

func TestAPeerThatIsGoneIsCountedAndComesBackAtItsAddress(t *testing.T) {
	a, b := awakePair(t)
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	at := b.Addr()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// Each one after the kernel has reported for the one before that nothing listens there.
	for i := range 4 * limits.DirectAfter {
		a.Reserve(at)
		if i%2 == 0 {
			a.Post(0, make([]byte, 10))
		} else {
			a.Commit(10)
			a.Flush(0)
		}
		a.Poll(0, &collect{})
	}
	if s := a.Stats(); s.Refused == 0 || s.Unsendable != 0 || a.out.pending() != 0 {
		t.Errorf("%+v, %d wait; want refusals that are counted, and no frame charged with them", s, a.out.pending())
	}
	b, err := Listen(Config{Addr: at, MTU: 1472})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	say(t, a, b, 3*limits.DirectAfter)
	turned(t, a, b)
	say(t, b, a, 100)
}

// An error on the direct socket may be about any earlier frame: it costs none.
func TestAnErrorOfTheDirectSocketCostsNoFrame(t *testing.T) {
	t.Run("committed", func(t *testing.T) { failDirect(t, func(a, b *Driver) { say(t, a, b, 1) }) })
	t.Run("posted", func(t *testing.T) {
		failDirect(t, func(a, b *Driver) {
			in := &collect{}
			a.Reserve(b.Addr())
			a.Post(0, []byte("posted"))
			drain(t, b, in, 1)
			if string(in.frames[0]) != "posted" {
				t.Errorf("%q has come", in.frames[0])
			}
		})
	})
}

func failDirect(t *testing.T, next func(a, b *Driver)) {
	a, b := awakePair(t)
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	unix.Close(a.sock.direct.fd)
	// It sends nothing, and cannot be connected.
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil || fd != a.sock.direct.fd {
		t.Skip("another descriptor is opened meanwhile:", fd, err)
	}
	told := ""
	a.log = func(text string) { told = text }
	next(a, b)
	say(t, a, b, 100)
	if s := a.Stats(); s.Unsendable != 0 || s.Refused != 1 {
		t.Errorf("%+v; want one refusal", s)
	}
	if a.sock.direct.fd >= 0 || !strings.Contains(told, "leave by the listening socket") {
		t.Errorf("a direct socket that cannot rest is kept, or that is not told, but %q", told)
	}
	if a.Sleep() {
		t.Error("without a direct socket, Sleep finds frames")
	}
}

func TestWhatTheDirectSocketHasOverrunStaysCountedWhenItIsGone(t *testing.T) {
	a, b := awakePair(t)
	say(t, a, b, 2*limits.DirectAfter)
	turned(t, a, b)
	if err := unix.SetsockoptInt(a.sock.direct.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		b.Reserve(a.Addr())
		b.Commit(1000)
		b.Flush(0)
	}
	before := a.Stats().Overrun
	if before == 0 {
		t.Fatal("100 frames fit into a buffer of 4 KiB")
	}
	a.sock.direct.size = 0 // so that it cannot be connected to its own address
	a.restDirect()
	if after := a.Stats().Overrun; a.sock.direct.fd >= 0 || after != before {
		t.Errorf("%d frames are counted as overrun; %d were before the direct socket was closed", after, before)
	}
}

func TestAPeerThatCannotBeConnectedToIsSentToByTheListeningSocket(t *testing.T) {
	a, b := awakePair(t)
	var told []string
	a.log = func(text string) { told = append(told, text) }
	for range 3 * limits.DirectAfter { // a host may send there only if it has asked for that
		a.Reserve(netip.AddrPortFrom(netip.MustParseAddr("255.255.255.255"), 9))
		a.Commit(10)
		a.Flush(0)
	}
	resting(t, a)
	if len(told) != 2 || !strings.Contains(told[0], "do not leave this host") || !strings.Contains(told[1], "leave by the listening socket") {
		t.Errorf("told %q; want once that the frames do not leave, and once that they are not sent by the direct socket", told)
	}
	say(t, a, b, 3*limits.DirectAfter)
	turned(t, a, b)
}

func TestExplainSaysWhetherThereIsADirectSocket(t *testing.T) {
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{Addr: netip.MustParseAddrPort("127.0.0.1:0")}, "a direct socket for a busy peer"},
		{Config{Addr: netip.MustParseAddrPort("0.0.0.0:0")}, "no direct socket for a busy peer, which needs one local address"},
	} {
		d, err := Listen(test.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(d.Explain(), test.want) {
			t.Errorf("Explain() = %q; want %q in it", d.Explain(), test.want)
		}
		d.Close()
	}
	d, err := Listen(Config{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OneSocket: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.sock.direct.fd >= 0 || strings.Contains(d.Explain(), "direct") {
		t.Errorf("with OneSocket there are two, or it is explained: %s", d.Explain())
	}
}

// The address stays this driver's: although two sockets share it, a third must not get in.
func TestNobodyElseCanListenAtTheAddressOfTwoSockets(t *testing.T) {
	a, _ := awakePair(t)
	fd, err := newSocket(false)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	var name sockaddr
	size, _ := name.set(a.Addr(), false, &a.sock.zones)
	if bindTo(fd, &name, size) == nil {
		t.Errorf("another socket is bound to %v, too", a.Addr())
	}
}

func TestTurningAndSendingDirectlyAllocateNothing(t *testing.T) {
	a, b := awakePair(t)
	c, _ := pairOf(t, 1472)
	in := &count{}
	exchange := func(to *Driver) {
		for range 2*limits.DirectAfter + 1 {
			a.Reserve(to.Addr())
			a.Commit(100)
			a.Flush(0)
			to.Poll(0, in)
			a.Poll(0, in)
		}
	}
	before := a.Stats().Turned
	if n := testing.AllocsPerRun(20, func() {
		exchange(b)
		exchange(c)
		a.Sleep()
		a.Awake()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := a.Stats().Turned - before; got < 40 {
		t.Errorf("turned %d times in 21 rounds; want 42", got)
	}
}

type count struct{ frames int }

func (c *count) Receive(clock.Time, link.Addr, []byte) { c.frames++ }

func (c *count) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

// The sender of small batches gains nothing by its direct socket: they leave by the listening
// socket, except for those that find the direct one turned. Their receiver gains: they arrive by
// its direct socket, if it acknowledges them by lone frames.
func TestTheDirectSocketRestsWhereMuchGoesAndNotWhereMuchComes(t *testing.T) {
	offloading(t)
	a, b := awakePair(t)
	in := &collect{}
	n := 0
	batches := func(from, to *Driver, rounds int) {
		t.Helper()
		for range rounds {
			for range 20 {
				f := from.Reserve(to.Addr())
				copy(f, fmt.Sprintf("%06d", n))
				from.Commit(1472)
				n++
			}
			from.Flush(0)
			drain(t, to, in, n)
			to.Reserve(from.Addr()) // an acknowledgement
			to.Commit(1)
			to.Flush(0)
			drain(t, from, &collect{}, 1)
		}
	}
	for _, pair := range [][2]*Driver{{a, b}, {b, a}} {
		say(t, a, b, 3*limits.DirectAfter)
		say(t, b, a, 3*limits.DirectAfter)
		if pair[0] == a {
			turned(t, a, b)
			turned(t, b, a)
		}
		batches(pair[0], pair[1], 2*limits.DirectAfter)
		resting(t, pair[0])
		turned(t, pair[1], pair[0])
	}
	for i, f := range in.frames {
		if len(f) != 1472 || string(f[:6]) != fmt.Sprintf("%06d", i) {
			t.Fatalf("frame %d has %d bytes and says %q", i, len(f), f[:6])
		}
	}
	if s := a.Stats(); s.Direct <= 3*limits.DirectAfter || framesBatched(a) == 0 {
		t.Errorf("%+v, %d frames in batches; want some of them by the direct socket", s, framesBatched(a))
	}
}
