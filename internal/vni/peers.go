package vni

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/weftnet/weft/internal/histogram"
	"github.com/weftnet/weft/internal/limits"
)

// PeerCounter names a value that a NIC has for each peer.
type PeerCounter int

// The counters of a peer. Instants are on the clock of the NIC, in nanoseconds; durations are in
// nanoseconds as well. Names that end in _now are levels.
const (
	PeerUpNow PeerCounter = iota
	PeerSessions
	PeerOpenedAt
	PeerHandshakeAt
	PeerHeardAt
	PeerFramesOut
	PeerBytesOut
	PeerFramesIn
	PeerBytesIn
	PeerSends
	PeerResends
	PeerResentBytes
	PeerLostTimeout
	PeerLostFast
	PeerLostTail
	PeerLostPath
	PeerUnnoticedTimeout
	PeerUnnoticedFast
	PeerUnnoticedTail
	PeerUnnoticedPath
	PeerDuplicates
	PeerRTTNow
	PeerRTTLeastNow
	PeerWindowNow
	PeerInFlightNow
	PeerFrameNow
	PeerWholeFrameNow
	PeerPathNow
	PeerGuardNow
	peerCounters
)

// peerTexts holds the name and the meaning of each.
var peerTexts = [peerCounters]struct{ name, text string }{
	{"up_now", "1 while a session is open"},
	{"sessions", "opened sessions"},
	{"opened_at_ns", "when the last session opened"},
	{"handshake_at_ns", "when the last handshake gave fresh keys; on a plain link, when the session opened"},
	{"heard_at_ns", "when the last frame of the peer arrived in its session"},
	{"frames_out", "frames sent in sessions, with renewals of keys, and on a plain link with answers to Hellos"},
	{"bytes_out", "bytes of these frames"},
	{"frames_in", "the same of the peer: frames that were verified"},
	{"bytes_in", "bytes of these frames"},
	{"sends", "first postings of segments"},
	{"resends", "retransmissions of segments"},
	{"resent_bytes", "bytes of records in retransmissions"},
	{"lost_timeout", "segments considered lost because no acknowledgement came in time"},
	{"lost_fast", "segments considered lost because later frames were acknowledged"},
	{"lost_tail", "last segments of a burst, retransmitted because the peer was silent"},
	{"lost_path", "segments considered lost because the path became narrow"},
	{"unnoticed_timeout_ns", "time from the posting of a segment until lost_timeout counted it, summed"},
	{"unnoticed_fast_ns", "the same for lost_fast"},
	{"unnoticed_tail_ns", "the same for lost_tail"},
	{"unnoticed_path_ns", "the same for lost_path"},
	{"duplicates", "segments and parts of the peer that had arrived before"},
	{"rtt_now_ns", "smoothed round trip; 0 if none was measured in this session"},
	{"rtt_least_now_ns", "shortest round trip lately; 0 if none was measured in this session"},
	{"window_now", "bytes that may be in flight"},
	{"in_flight_now", "bytes that are in flight"},
	{"frame_now", "bytes of the longest frame that is known to reach the peer"},
	{"whole_frame_now", "bytes of the longest frame that both NICs take"},
	{"path_now", "how frame_now was found: a PathState"},
	{"guard_now", "guard of the frames: 0 plain, 1 sealed"},
}

func (c PeerCounter) String() string {
	if c >= 0 && c < peerCounters {
		return peerTexts[c].name
	}
	return fmt.Sprintf("peer-counter-%d", int(c))
}

// Text returns the meaning of a counter.
func (c PeerCounter) Text() string { return peerTexts[c].text }

// Grows reports whether a counter only grows: it is neither a level nor an instant.
func (c PeerCounter) Grows() bool {
	return c != PeerOpenedAt && c != PeerHandshakeAt && c != PeerHeardAt && c != PeerUpNow && c < PeerRTTNow
}

// PeerCounters returns all counters of a peer, in the order of their values.
func PeerCounters() []PeerCounter {
	all := make([]PeerCounter, peerCounters)
	for i := range all {
		all[i] = PeerCounter(i)
	}
	return all
}

// Peer holds the row of one peer in a PeerTable.
type Peer struct {
	NIC         uint64 // 0 until the peer has told its id
	Incarnation uint64
	Addr        netip.AddrPort // without the zone of a link-local address

	Counts [peerCounters]uint64 // by PeerCounter
	RTT    histogram.Histogram
}

// A row of the table: a sequence word, and the words of a Peer.
const (
	peerIDWords  = 5 // NIC, incarnation, address (2), port
	peerWords    = peerIDWords + int(peerCounters) + histogramWords
	peerRowWords = (1 + peerWords + lineBytes/8 - 1) / (lineBytes / 8) * (lineBytes / 8)
)

type peerRow [peerRowWords]uint64

// PeerTableBytes is the size of the table, in whole pages: a header line, and a row for each of
// limits.Peers peers. Rows without a peer are never touched, and so take no memory.
const PeerTableBytes = (lineBytes + limits.Peers*8*peerRowWords + limits.PageBytes - 1) /
	limits.PageBytes * limits.PageBytes

// StatBytes is the size of the memory that a NIC shares with tools: its CounterPage, its LoopPage,
// and its PeerTable from PeersAt on.
const (
	LoopAt    = CounterPageBytes
	PeersAt   = LoopAt + LoopPageBytes
	StatBytes = PeersAt + PeerTableBytes
)

const peerMagic = 0x31_52_45_50_4e_66_65_57 // "WefNPER1"

// PeerTable holds the counters of a NIC's peers, in memory that other programs may map and read at
// any time without disturbing the NIC. The NIC is the only writer. The zero PeerTable discards
// stores.
//
//	 0  magic      8
//	 8  counters   8   of a row
//	16  list       8   hash of names and layout: a reader of another list must not guess
//	24  rows       8   in use
//	64  rows       each: sequence 8, NIC 8, incarnation 8, address 16, port 8, counters 8 each,
//	               round trips (count, sum, longest, buckets) 8 each
//
// The rows are as in row.go.
type PeerTable struct {
	head *[lineBytes / 8]uint64
	rows *[limits.Peers]peerRow
}

// NewPeerTable formats b, which must be zeros: it touches the header only. b must be at least
// PeerTableBytes long and aligned to 8 bytes.
func NewPeerTable(b []byte) (PeerTable, error) {
	t, err := overlayPeers(b)
	if err == nil {
		t.head[0], t.head[1], t.head[2] = peerMagic, uint64(peerCounters), peerListHash()
	}
	return t, err
}

// OpenPeerTable opens a table that another program has formatted. It fails if that program had
// another list of counters.
func OpenPeerTable(b []byte) (PeerTable, error) {
	t, err := overlayPeers(b)
	switch {
	case err != nil:
		return PeerTable{}, err
	case t.head[0] != peerMagic:
		return PeerTable{}, errors.New("vni: not a table of peers")
	case t.head[1] != uint64(peerCounters) || t.head[2] != peerListHash():
		return PeerTable{}, errors.New("vni: the table of peers was made by a program with another list of counters; " +
			"use the weft of the same build as the daemon")
	}
	return t, nil
}

func overlayPeers(b []byte) (PeerTable, error) {
	if err := aligned(b); err != nil {
		return PeerTable{}, err
	}
	if len(b) < PeerTableBytes {
		return PeerTable{}, fmt.Errorf("vni: table of peers of %d bytes, expected %d", len(b), PeerTableBytes)
	}
	return PeerTable{(*[lineBytes / 8]uint64)(unsafe.Pointer(&b[0])),
		(*[limits.Peers]peerRow)(unsafe.Pointer(&b[lineBytes]))}, nil
}

func peerListHash() uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, limits.Peers, peerRowWords, histogram.Buckets)
	for _, c := range peerTexts {
		io.WriteString(h, c.name+"\n")
	}
	return h.Sum64()
}

// SetLen sets the number of rows in use: the first n, at most limits.Peers.
func (t PeerTable) SetLen(n int) {
	if t.head != nil {
		atomic.StoreUint64(&t.head[3], uint64(min(n, limits.Peers)))
	}
}

// Len returns the number of rows in use; 0 for the zero PeerTable.
func (t PeerTable) Len() int {
	if t.head == nil {
		return 0
	}
	return int(min(atomic.LoadUint64(&t.head[3]), limits.Peers))
}

// Store writes the changed words of a row. It takes the round trips from rtt and not from p.RTT, to
// avoid a copy. It ignores a row that the table does not have.
func (t PeerTable) Store(row int, p *Peer, rtt *histogram.Histogram) {
	if t.rows == nil || row < 0 || row >= limits.Peers {
		return
	}
	r := &t.rows[row]
	a := p.Addr.Addr().As16()
	id := [peerIDWords]uint64{p.NIC, p.Incarnation, *(*uint64)(unsafe.Pointer(&a[0])),
		*(*uint64)(unsafe.Pointer(&a[8])), uint64(p.Addr.Port())}
	trips := [...]uint64{rtt.Count, rtt.Sum, rtt.Most}
	w := writeRow(r[:])
	w.put(id[:])
	other := w.changed() // the row was of another peer, or of another life
	w.put(p.Counts[:])
	if other || [len(trips)]uint64(w.rest) != trips { // else the buckets are the same
		w.put(trips[:])
		w.put(rtt.Buckets[:])
	}
	w.end()
}

// Load reads a row into p. It returns false if the NIC has not written the row yet, or if the row
// changed at each of several tries, which also happens if the NIC ended while it wrote.
func (t PeerTable) Load(row int, p *Peer) bool {
	if row < 0 || row >= t.Len() || !isWritten(t.rows[row][:]) {
		return false
	}
	var words [peerWords]uint64
	if !readRow(t.rows[row][:], words[:]) {
		return false
	}
	p.take(&words)
	return true
}

// take sets p to the words of a row.
func (p *Peer) take(words *[peerWords]uint64) {
	a := *(*[16]byte)(unsafe.Pointer(&words[2]))
	p.NIC, p.Incarnation = words[0], words[1]
	p.Addr = netip.AddrPortFrom(netip.AddrFrom16(a).Unmap(), uint16(words[4]))
	n := peerIDWords + copy(p.Counts[:], words[peerIDWords:])
	p.RTT.Count, p.RTT.Sum, p.RTT.Most = words[n], words[n+1], words[n+2]
	copy(p.RTT.Buckets[:], words[n+3:])
}
