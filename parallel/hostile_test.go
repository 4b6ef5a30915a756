package parallel

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// waiting returns a machine of two ranks that is in an operation and expects eight bytes from rank
// 1.
func waiting() (*Machine, *want, []byte) {
	m := newMachine(&memoryWire{net: newMemoryNet(2)}, nil, nil, 3)
	if err := m.begin(context.Background(), describe(opBarrier, noAxis, 0, 0)); err != nil {
		panic(err)
	}
	wants := []want{{from: 1, buf: make([]byte, 8)}}
	if err := m.start(context.Background(), nil, wants); err != nil {
		panic(err)
	}
	h := header{epoch: 3, rank: 1, seq: m.seq, phase: m.phase, kind: kindData, total: 8, what: m.now}
	var head [headerLen]byte
	h.put(&head)
	return m, &wants[0], append(head[:], "12345678"...)
}

func TestAMessageArrivesWhereItIsWanted(t *testing.T) {
	m, w, b := waiting()
	if err := m.take(b); err != nil || !w.done || string(w.buf) != "12345678" {
		t.Errorf("%v, done %v, %q", err, w.done, w.buf)
	}
}

func TestEveryCutMessageIsRefused(t *testing.T) {
	_, _, b := waiting()
	for n := range b {
		m, w, _ := waiting()
		if err := m.take(b[:n]); w.done || err == nil && n > headerLen && w.got != n-headerLen {
			t.Errorf("a message cut to %d bytes: %v, %+v", n, err, w)
		}
	}
}

// A changed message is discarded, kept for a later operation, or an error. The machine never
// keeps more memory than the message has, and never fills a want with anything but eight bytes of
// data.
func TestAChangedMessageDoesNoHarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		m, w, b := waiting()
		for range 1 + rng.IntN(3) {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
		if rng.IntN(4) == 0 {
			b = b[:rng.IntN(len(b)+1)]
		}
		err := m.take(b)
		kept := 0
		for _, e := range m.early {
			kept += len(e.data)
		}
		if kept > len(b) || len(w.buf) != 8 || w.done && w.got != 8 {
			t.Fatalf("%x: %v, %d bytes kept, %+v", b, err, kept, w)
		}
	}
}

func TestAMessageOfAnEarlierMachineIsDiscarded(t *testing.T) {
	m, w, b := waiting()
	b[0] = 2 // the message's epoch
	if err := m.take(b); err != nil || w.begun || len(m.early) != 0 {
		t.Errorf("%v, %+v, %d kept", err, w, len(m.early))
	}
}

func TestDataOfAnotherLengthIsAnError(t *testing.T) {
	m, _, b := waiting()
	b[32] = 9
	if err := m.take(b[:len(b)-1]); err == nil || !strings.Contains(err.Error(), "9 bytes; expected 8") {
		t.Errorf("%v", err)
	}
	m, w, b := waiting()
	w.open, w.limit, w.buf = true, 7, nil
	if err := m.take(b); err == nil || !strings.Contains(err.Error(), "expected at most 7") {
		t.Errorf("%v", err)
	}
}

func TestFaultsSurviveTheirJourney(t *testing.T) {
	for _, want := range []error{
		&MismatchError{Rank: 3, Op: "Reduce", Other: 4, Did: "Scan"},
		&RankError{2, "Get", badArgument("index %d", 7)},
		&RankError{0, "Reduce", context.DeadlineExceeded},
		&RankError{5, "Save", errors.New(strings.Repeat("long ", 10_000))},
	} {
		m, _, _ := waiting()
		b := encodeFault(want)
		if len(b) > maxFault {
			t.Errorf("a fault of %d bytes", len(b))
		}
		got := m.heard(b)
		if len(want.Error()) < maxFault && got.Error() != want.Error() {
			t.Errorf("%v became %v", want, got)
		}
		for _, cause := range causes {
			if errors.Is(got, cause) != errors.Is(want, cause) {
				t.Errorf("%.80v became %.80v, which differs in %v", want, got, cause)
			}
		}
		for n := range min(len(b), 40) {
			if err := m.heard(b[:n]); err == nil {
				t.Errorf("a fault cut to %d bytes is no error", n)
			}
		}
	}
}
