//go:build linux && !portable

package udp

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/copier"
	"github.com/weftnet/weft/internal/limits"
)

// lentBatches is how many full batches are lent before the memory of the first is used again.
const lentBatches = limits.LentBytes / lentRoom

// lending returns two drivers whose kernel sends from lent memory; on another kernel it skips
// the test, with the reason.
func lending(t *testing.T) (a, b *Driver) {
	t.Helper()
	offloading(t)
	a, b = awakePair(t)
	if !a.sock.lent.able {
		t.Skip(a.sock.lent.why)
	}
	return a, b
}

// numbered writes the nth frame, with its number in all of its words.
func numbered(b []byte, n int) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(n)<<16+uint64(i))
	}
}

// sendBatch sends frames of a length in one call, the first of them the nth.
func sendBatch(t *testing.T, from, to *Driver, n, frames, size int) {
	t.Helper()
	b := from.ReserveRun(to.Addr(), size, frames)
	if len(b) != frames*size {
		t.Fatalf("room for %d bytes; want %d frames of %d", len(b), frames, size)
	}
	for i := range frames {
		numbered(b[i*size:][:size], n+i)
	}
	from.CommitRun(frames)
	from.Flush(0)
}

// arrive polls d until so many frames of a length have arrived, the first of them the nth, and
// compares them.
func arrive(t *testing.T, d *Driver, n, frames, size int) {
	t.Helper()
	in := &collect{}
	drain(t, d, in, frames)
	want := make([]byte, size)
	for i, f := range in.frames {
		if numbered(want, n+i); string(f) != string(want) {
			t.Fatalf("frame %d of %d bytes differs from what was sent, %d bytes", n+i, len(f), size)
		}
	}
}

// lentAfter sends large batches until the direct socket is turned.
func lentAfter(t *testing.T, from, to *Driver) {
	t.Helper()
	for range limits.DirectAfter + 1 {
		sendBatch(t, from, to, 0, 44, 1472)
		arrive(t, to, 0, 44, 1472)
	}
	turned(t, from, to)
}

func TestLargeBatchesForABusyPeerAreLentAndArriveAsTheyWere(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	before := a.Stats()
	for round := range 2 * lentBatches {
		sendBatch(t, a, b, round*44, 44, 1472)
		arrive(t, b, round*44, 44, 1472)
	}
	s := a.Stats()
	if got, want := s.Lent-before.Lent, uint64(2*lentBatches*44); got != want || s.Direct-before.Direct != want {
		t.Errorf("%d frames were lent, %d left by the direct socket; want %d", got, s.Direct-before.Direct, want)
	}
	if s.Unsendable+s.TooBig+s.Refused > 0 || a.sock.lent.failed > 0 {
		t.Errorf("%+v, and %d batches were not taken; want none", s, a.sock.lent.failed)
	}
}

// While lending, the direct socket cuts everything that it sends, and frames of other lengths
// leave between large batches.
func TestFramesOfAllLengthsLeaveBetweenLentBatches(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	for _, size := range []int{704, 1472, 1000, 8, 1448} {
		frames := min(limits.LentLeast/704+1, limits.StageBytes/size)
		if size < 704 {
			frames = 4
		}
		lent := a.Stats().Lent
		sendBatch(t, a, b, 7, frames, size)
		arrive(t, b, 7, frames, size)
		if got := a.Stats().Lent - lent; size >= 704 && got != uint64(frames) {
			t.Errorf("%d frames of %d bytes were lent; want %d", got, size, frames)
		}
		sendBatch(t, a, b, 9, 1, 1472)
		arrive(t, b, 9, 1, 1472)
		sendBatch(t, a, b, 11, 3, 1400)
		arrive(t, b, 11, 3, 1400)
	}
}

// The stage is in the ring while it holds such a batch, and in its own buffer before and after.
func TestALargeBatchIsWrittenWhereItIsLent(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	a.sock.lent.copier = copier.Copier{}
	lent, there := a.Stats().Lent, 0
	const batches = 30 // each is asked for twice, and all come before the first trial
	for i := range batches {
		room := a.ReserveRun(b.Addr(), 1472, 44)
		if &room[0] == &a.sock.lent.room()[0] {
			there++
		}
		sendBatch(t, a, b, i, 44, 1472)
		if a.out.away {
			t.Fatal("the stage is away though it is empty")
		}
		arrive(t, b, i, 44, 1472)
	}
	if got := a.Stats().Lent - lent; there != batches || got != batches*44 {
		t.Errorf("%d of %d reservations were in lent memory, and %d frames were lent", there, batches, got)
	}
}

// A run that turns out shorter than requested leaves lent memory by copying, and so do single
// frames after it.
func TestAShortRunThatIsWrittenIntoLentMemoryIsCopied(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	a.sock.lent.copier = copier.Copier{}
	lent := a.Stats().Lent
	room := a.ReserveRun(b.Addr(), 1472, 44)
	for i := range 3 {
		numbered(room[i*1472:][:1472], i)
	}
	a.CommitRun(3)
	numbered(a.Reserve(b.Addr())[:1472], 3)
	if !a.out.away {
		t.Fatal("the stage is not in lent memory")
	}
	a.Commit(1472)
	a.Flush(0)
	arrive(t, b, 0, 4, 1472)
	if got := a.Stats().Lent; got != lent {
		t.Errorf("%d frames of a short run were lent", got-lent)
	}
}

// Memory that is to be unmapped stays for as long as frames, or a reservation, are in it.
func TestLentMemoryIsGivenBackOnceNoFrameIsStagedThere(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	a.sock.lent.copier = copier.Copier{}
	room := a.ReserveRun(b.Addr(), 1472, 30)
	for i := range 30 {
		numbered(room[i*1472:][:1472], i)
	}
	a.CommitRun(30)
	f := a.Reserve(b.Addr())
	a.returnLent()
	a.Flush(0)
	if !a.out.away || a.sock.lent.memory == nil {
		t.Fatal("the memory of an open reservation is gone")
	}
	numbered(f[:1472], 30)
	a.Commit(1472)
	a.Flush(0)
	if a.out.away || a.sock.lent.memory != nil || a.sock.lent.stale {
		t.Error("the memory has not been given back")
	}
	arrive(t, b, 0, 31, 1472)
	lent := a.Stats().Lent
	for i := range 2 {
		sendBatch(t, a, b, i, 44, 1472)
		arrive(t, b, i, 44, 1472)
	}
	if got := a.Stats().Lent - lent; got != 88 {
		t.Errorf("%d frames were lent after it had been given back; want 88", got)
	}
}

// A short frame that is staged before or after a large batch does not cause the batch to be
// copied.
func TestALargeBatchIsLentWhateverElseIsStaged(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	for _, order := range [][3]int{{1, 40, 0}, {0, 40, 2}, {2, 40, 1}} {
		lent := a.Stats().Lent
		n := 0
		for i, frames := range order {
			size := 104
			if i == 1 {
				size = 1472
			}
			if frames > 0 {
				room := a.ReserveRun(b.Addr(), size, frames)
				for k := range frames {
					numbered(room[k*size:][:size], n+k)
				}
				a.CommitRun(frames)
			}
			n += frames
		}
		a.Flush(0)
		in := &collect{}
		drain(t, b, in, n)
		for i, f := range in.frames {
			want := make([]byte, len(f))
			if numbered(want, i); string(f) != string(want) {
				t.Errorf("%v: frame %d differs from what was sent", order, i)
			}
		}
		if got := a.Stats().Lent - lent; got < 40 {
			t.Errorf("%v: %d frames were lent; want 40", order, got)
		}
	}
}

// Frames that the receiver has not read yet stay as they are, also if frames for another peer
// leave meanwhile.
func TestMemoryThatWasLentForOnePeerIsNotUsedForAnother(t *testing.T) {
	a, b := lending(t)
	c, _ := pairOf(t, 1472)
	lentAfter(t, a, b)
	unread := max(1, min(16, b.ReceiveBuffer()/(2*lentRoom)))
	for i := range unread {
		sendBatch(t, a, b, i*44, 44, 1472)
	}
	for range 2*limits.DirectAfter + 2 { // away from one peer, and to the other
		sendBatch(t, a, c, 0, 44, 1472)
		arrive(t, c, 0, 44, 1472)
	}
	turned(t, a, c)
	lent := a.Stats().Lent
	for range lentBatches {
		sendBatch(t, a, c, 1<<20, 44, 1472)
		arrive(t, c, 1<<20, 44, 1472)
	}
	if a.Stats().Lent == lent {
		t.Fatal("nothing was lent for the second peer")
	}
	arrive(t, b, 0, unread*44, 1472)
}

// If a pipe is too small for a batch, no part of the batch leaves, and if that happens now and
// then lending continues.
func TestABatchThatItsPipeHasNoRoomForIsCopiedWhole(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	for i := range 2 * lendTries {
		if err := a.sock.lent.open(); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(a.sock.lent.pipe[1]), unix.F_SETPIPE_SZ, 8192); err != nil {
			t.Fatal(err)
		}
		lent := a.Stats().Lent
		sendBatch(t, a, b, i, 44, 1472)
		arrive(t, b, i, 44, 1472)
		if got := a.Stats().Lent; got != lent {
			t.Fatalf("%d frames were lent through a pipe of two pages", got-lent)
		}
		sendBatch(t, a, b, i, 44, 1472) // by a new pipe
		arrive(t, b, i, 44, 1472)
		if got := a.Stats().Lent; got != lent+44 {
			t.Fatalf("%d of 44 frames were lent after one time in vain", got-lent)
		}
	}
}

// To copy a batch and lend it again and again, until a socket has room for it, costs more than
// the kernel's copy.
func TestNothingIsLentBehindABatchThatFoundNoRoomUntilOneHas(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	a.sock.lent.full = true
	lent := a.Stats().Lent
	sendBatch(t, a, b, 0, 44, 1472)
	arrive(t, b, 0, 44, 1472)
	if got := a.Stats().Lent; got != lent || a.sock.lent.full {
		t.Errorf("%d frames were lent; the socket has room: %v", got-lent, !a.sock.lent.full)
	}
	sendBatch(t, a, b, 0, 44, 1472)
	arrive(t, b, 0, 44, 1472)
	if got := a.Stats().Lent; got != lent+44 {
		t.Errorf("%d frames were lent once there was room; want 44", got-lent)
	}
}

func TestWhatTheKernelDoesNotTakeOutOfLentMemoryIsCopied(t *testing.T) {
	a, b := lending(t)
	var said []string
	a.log = func(text string) { said = append(said, text) }
	lentAfter(t, a, b)
	if err := a.sock.lent.open(); err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	// It is no pipe.
	if err := unix.Dup3(int(null.Fd()), a.sock.lent.pipe[1], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	lent := a.Stats().Lent
	for i := range 2 * lendTries {
		sendBatch(t, a, b, i, 44, 1472)
		arrive(t, b, i, 44, 1472)
	}
	if got := a.Stats().Lent; got != lent || a.sock.lent.able {
		t.Errorf("%d frames were lent after all; lending goes on: %v", got-lent, a.sock.lent.able)
	}
	if len(said) != 1 || !strings.Contains(said[0], "copies large batches") {
		t.Errorf("the driver said %q; want one sentence about copies", said)
	}
}

func TestLendingCostsNoAllocations(t *testing.T) {
	a, b := lending(t)
	lentAfter(t, a, b)
	in := &count{}
	sent := 0
	if n := testing.AllocsPerRun(50, func() {
		sendBatch(t, a, b, 0, 44, 1472)
		for sent += 44; in.frames < sent; {
			b.Poll(0, in)
		}
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// Batches of any length lie one after the other. So the memory of one is reused only when nearly
// the whole ring has been lent since.
func TestLentMemoryIsUsedAgainOnlyWhenAsMuchHasBeenLentSince(t *testing.T) {
	type stretch struct{ from, to int }
	r := rand.New(rand.NewPCG(1, 2))
	l := lender{memory: make([]byte, limits.LentBytes)}
	var since []stretch // the last to be lent, oldest first
	bytes := 0          // of them
	for range 10_000 {
		n := limits.LentLeast + r.IntN(lentRoom-limits.LentLeast+1)
		if len(l.room()) != lentRoom || l.next%lentPage != 0 {
			t.Fatalf("a room of %d bytes at %d; want %d where a page begins", len(l.room()), l.next, lentRoom)
		}
		for _, s := range since {
			if l.next < s.to && s.from < l.next+n {
				t.Fatalf("at %d lies a batch that is not the last but %d bytes", l.next, bytes)
			}
		}
		since, bytes = append(since, stretch{l.next, l.next + n}), bytes+n
		for bytes > limits.LentBytes*7/8-lentRoom {
			bytes -= since[0].to - since[0].from
			since = since[1:]
		}
		l.advance(n)
	}
}
