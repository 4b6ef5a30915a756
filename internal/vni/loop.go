package vni

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftnet/weft/internal/histogram"
	"github.com/weftnet/weft/internal/limits"
)

// Loop holds the measurements of the loop that polls a NIC.
type Loop struct {
	// Polls has the durations of the polls that found work.
	Polls histogram.Histogram
	// Lags has the delays of the polls after the deadlines of the engine.
	Lags histogram.Histogram
	// The times of the longest poll and of the longest lag, as Unix time in nanoseconds; 0 if there
	// is none.
	LongestPollAt, LongestLagAt int64
}

const (
	histogramWords = 3 + histogram.Buckets
	loopWords      = 2*histogramWords + 2
)

// LoopPageBytes is the size of a LoopPage.
const LoopPageBytes = (lineBytes + 8*(1+loopWords) + limits.PageBytes - 1) / limits.PageBytes * limits.PageBytes

const loopMagic = 0x31_50_4f_4f_4c_66_65_57 // "WefLOOP1"

// LoopPage holds the Loop of one NIC, in memory that other programs may map and read at any time.
// The loop is the only writer. The zero LoopPage discards stores.
//
//	 0  magic    8
//	 8  words    8   of the row
//	64  row          sequence 8; polls, then lags: count, sum, longest, buckets, 8 each; longest
//	                 poll at 8; longest lag at 8
type LoopPage struct{ row *[1 + loopWords]uint64 }

// NewLoopPage formats b, which must be zeros. b must be at least LoopPageBytes long and aligned to
// 8 bytes.
func NewLoopPage(b []byte) (LoopPage, error) {
	p, head, err := overlayLoop(b)
	if err == nil {
		*head = [2]uint64{loopMagic, loopWords}
	}
	return p, err
}

// OpenLoopPage opens a page that another program has formatted. It fails if that program had
// another layout.
func OpenLoopPage(b []byte) (LoopPage, error) {
	p, head, err := overlayLoop(b)
	if err == nil && *head != [2]uint64{loopMagic, loopWords} {
		err = errors.New("vni: no page of a loop, or one of another layout; " +
			"use the weft of the same build as the daemon")
	}
	if err != nil {
		return LoopPage{}, err
	}
	return p, nil
}

func overlayLoop(b []byte) (LoopPage, *[2]uint64, error) {
	if err := aligned(b); err != nil {
		return LoopPage{}, nil, err
	}
	if len(b) < LoopPageBytes {
		return LoopPage{}, nil, fmt.Errorf("vni: page of a loop of %d bytes, expected %d", len(b), LoopPageBytes)
	}
	return LoopPage{(*[1 + loopWords]uint64)(unsafe.Pointer(&b[lineBytes]))}, (*[2]uint64)(unsafe.Pointer(&b[0])), nil
}

// Store writes the words of l that have changed.
func (p LoopPage) Store(l *Loop) {
	if p.row == nil {
		return
	}
	w := writeRow(p.row[:])
	for _, h := range []*histogram.Histogram{&l.Polls, &l.Lags} {
		w.put([]uint64{h.Count, h.Sum, h.Most})
		w.put(h.Buckets[:])
	}
	w.put([]uint64{uint64(l.LongestPollAt), uint64(l.LongestLagAt)})
	w.end()
}

// Load reads the page into l. It returns false for the zero LoopPage, and if the page changed at
// each of several tries.
func (p LoopPage) Load(l *Loop) bool {
	var words [loopWords]uint64
	if p.row == nil || !readRow(p.row[:], words[:]) {
		return false
	}
	rest := words[:]
	for _, h := range []*histogram.Histogram{&l.Polls, &l.Lags} {
		h.Count, h.Sum, h.Most = rest[0], rest[1], rest[2]
		copy(h.Buckets[:], rest[3:])
		rest = rest[histogramWords:]
	}
	l.LongestPollAt, l.LongestLagAt = int64(rest[0]), int64(rest[1])
	return true
}
