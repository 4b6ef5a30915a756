package vni

import (
	"net/netip"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/histogram"
	"github.com/weftnet/weft/internal/limits"
)

func newTable(t *testing.T) (w, r PeerTable, b []byte) {
	t.Helper()
	b = AlignedBytes(PeerTableBytes)
	if _, err := OpenPeerTable(b); err == nil {
		t.Fatal("an unformatted table was opened")
	}
	w, err := NewPeerTable(b)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = OpenPeerTable(b); err != nil {
		t.Fatal(err)
	}
	return w, r, b
}

// samplePeer returns a peer whose values all follow from n.
func samplePeer(n uint64) *Peer {
	p := &Peer{NIC: n, Incarnation: 2 * n, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), uint16(n))}
	for i := range p.Counts {
		p.Counts[i] = n + uint64(i)
	}
	for i := range n % 50 {
		p.RTT.Record(time.Duration(n * i))
	}
	return p
}

func TestEveryCounterOfAPeerHasItsOwnNameAndAMeaning(t *testing.T) {
	seen, good := map[string]bool{}, regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, c := range PeerCounters() {
		if n := c.String(); seen[n] || !good.MatchString(n) || c.Text() == "" {
			t.Errorf("counter %d: name %q is missing, twice or odd, or its meaning %q is", int(c), n, c.Text())
		}
		seen[c.String()] = true
	}
	for c, n := range map[PeerCounter]string{PeerUpNow: "up_now", PeerLostPath: "lost_path", PeerUnnoticedPath: "unnoticed_path_ns",
		PeerRTTNow: "rtt_now_ns", PeerGuardNow: "guard_now"} {
		if c.String() != n {
			t.Errorf("%v stands where %s should", c, n)
		}
	}
}

func TestPeersAreReadFromTheSameTable(t *testing.T) {
	w, r, b := newTable(t)
	for i, n := range []uint64{71, 5000} {
		w.Store(i, samplePeer(n), &samplePeer(n).RTT)
	}
	w.Store(1, samplePeer(999), &samplePeer(999).RTT)
	w.SetLen(2)
	if r.Len() != 2 {
		t.Fatalf("%d rows are in use; want 2", r.Len())
	}
	for i, n := range []uint64{71, 999} {
		var p Peer
		if ok := r.Load(i, &p); !ok || p != *samplePeer(n) {
			t.Errorf("row %d: %v, %+v; want %+v", i, ok, p, *samplePeer(n))
		}
	}
	var p Peer
	if r.Load(2, &p) || r.Load(-1, &p) {
		t.Error("a row that is not in use was read")
	}
	w.Store(limits.Peers, samplePeer(1), &samplePeer(1).RTT) // no such row
	w.SetLen(1 << 40)
	if r.Len() != limits.Peers {
		t.Errorf("%d rows are in use; want at most %d", r.Len(), limits.Peers)
	}
	b[16]++
	if _, err := OpenPeerTable(b); err == nil {
		t.Error("a table of another list was opened")
	}
	if _, err := NewPeerTable(b[:4096]); err == nil {
		t.Error("a short table was formatted")
	}
	var none PeerTable
	none.Store(0, &p, &p.RTT)
	none.SetLen(1)
	if none.Len() != 0 || none.Load(0, &p) {
		t.Error("the zero table keeps peers")
	}
}

func TestARowThatIsBeingWrittenIsNotRead(t *testing.T) {
	w, r, _ := newTable(t)
	w.Store(0, samplePeer(3), &samplePeer(3).RTT)
	w.SetLen(1)
	w.rows[0][0]++ // the writer was stopped in the middle
	var p Peer
	if r.Load(0, &p) {
		t.Error("a row was read while it was being written")
	}
}

func TestARowThatIsNotWrittenYetIsNotRead(t *testing.T) {
	w, r, _ := newTable(t)
	w.SetLen(2)
	w.Store(1, samplePeer(3), &samplePeer(3).RTT)
	var p Peer
	if r.Load(0, &p) {
		t.Errorf("a row that was never written holds %+v", p)
	}
	if !r.Load(1, &p) || p != *samplePeer(3) {
		t.Errorf("the row after it: %+v", p)
	}
}

func TestAReaderNeverMeetsHalfARow(t *testing.T) {
	w, r, _ := newTable(t)
	samples := []*Peer{samplePeer(49), samplePeer(1048)}
	w.Store(0, samples[0], &samples[0].RTT)
	w.SetLen(1)
	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				p := samples[i%2]
				w.Store(0, p, &p.RTT)
			}
		}
	})
	read := 0
	for range 2000 {
		var p Peer
		if !r.Load(0, &p) {
			continue
		}
		if read++; p != *samples[0] && p != *samples[1] {
			t.Errorf("half a row: %+v", p)
			break
		}
	}
	close(stop)
	all.Wait()
	var p Peer
	if !r.Load(0, &p) {
		t.Error("the row cannot be read when nobody writes it")
	}
	t.Logf("%d of 2,000 reads found a whole row", read)
}

func TestStoringARowAllocatesNothing(t *testing.T) {
	w, _, _ := newTable(t)
	p := samplePeer(7)
	if n := testing.AllocsPerRun(100, func() { p.Counts[3]++; w.Store(9, p, &p.RTT) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStorePeer(b *testing.B) {
	mem := AlignedBytes(PeerTableBytes)
	w, err := NewPeerTable(mem)
	if err != nil {
		b.Fatal(err)
	}
	var h histogram.Histogram
	p := samplePeer(7)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		p.Counts[PeerFramesOut]++
		h.Record(time.Duration(i % 1000))
		w.Store(i%16, p, &h)
	}
}
