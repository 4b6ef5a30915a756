package rel

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// trial moves a load through bad weather and returns an error if something was wrong.
func trial(t *testing.T, seed uint64, defect mutate.Defect) (err error) {
	w := newWorld(t, seed, weather{loss: 0.05, dup: 0.05, reorder: 0.1, corrupt: 0.02, jitter: 300 * time.Microsecond})
	a := w.add(1, func(c *Config) { c.Defect = defect })
	b := w.add(2, func(c *Config) { c.Defect = defect })
	b.open(a)
	tr := newTraffic(a, b, 200, []int{100_000, 300_000})
	damaged := false
	deliver := b.deliver
	b.deliver = func(e *Endpoint, r wire.Record) {
		if r.Type() == wire.TypeChunk {
			id, off := r.Chunk()
			got := tr.got[id]
			for i, x := range r.Payload() {
				at := int(off) + i
				if at >= len(got) || x != byte(at^at>>8^int(id)) {
					damaged = true
					return
				}
			}
		}
		deliver(e, r)
	}
	tr.pump()
	for until := w.now.Add(3 * time.Second); !tr.finished(); {
		if !w.step(until) {
			return fmt.Errorf("unfinished: %d messages, %d fragments", len(b.got), tr.done)
		}
	}
	w.run(100 * time.Millisecond)
	switch {
	case damaged:
		return fmt.Errorf("damaged bytes were delivered")
	case len(a.downs)+len(b.downs) > 0:
		return fmt.Errorf("sessions ended: %v %v", a.downs, b.downs)
	case len(b.got) != tr.shorts:
		return fmt.Errorf("%d messages arrived, %d were sent", len(b.got), tr.shorts)
	}
	for p, n := range b.got {
		if n != 1 {
			return fmt.Errorf("a message of %d bytes arrived %d times", len(p), n)
		}
	}
	for id, times := range tr.got {
		for i, n := range times {
			if n != 1 {
				return fmt.Errorf("byte %d of fragment %d arrived %d times", i, id, n)
			}
		}
	}
	return nil
}

// Every defect that internal/mutate has for this package does harm that a test can see, and
// without a defect there is none.
func TestDefectsDoHarm(t *testing.T) {
	for _, d := range []mutate.Defect{mutate.WindowOffByOne, mutate.NoDuplicateCheck, mutate.WrongSpaceAcked,
		mutate.NoRetransmit, mutate.TagIgnored, mutate.EarlyAck} {
		t.Run(d.String(), func(t *testing.T) {
			for seed := range uint64(50) {
				if err := trial(t, seed, d); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("nothing went wrong in 50 seeds")
		})
	}
	for seed := range uint64(10) {
		if err := trial(t, seed, mutate.None); err != nil {
			t.Errorf("seed %d, no defect: %v", seed, err)
		}
	}
}

// earlierLife restarts node 1 while one of its frames is late, and counts what node 2 is handed
// of the earlier life after it was told that this life is over.
func earlierLife(t *testing.T, defect mutate.Defect) (late int) {
	w := newWorld(t, 1, weather{})
	a := w.add(1, nil)
	b := w.add(2, func(c *Config) { c.Defect = defect })
	e := a.open(b)
	b.open(a)
	e.Connect(w.now)
	a.wake()
	w.run(time.Second)
	var held []byte
	w.filter = func(from, to *node, frame []byte) bool {
		if o, _, _ := wire.ParseOuter(frame); from == a && o.Kind == wire.KindData {
			held = frame
			return false
		}
		return true
	}
	a.frag(e, wire.Command, "late")
	w.run(time.Millisecond)
	w.filter = nil
	a.restart()
	a.open(b).Connect(w.now)
	w.runUntil(time.Second, "the new session", func() bool { return b.ups == 2 })
	b.m.Receive(w.now, a.addr, held)
	b.wake()
	w.run(time.Second)
	if len(b.downs) != 1 || b.downs[0] != ErrRestarted {
		t.Errorf("node 2 was told %v, want %v once", b.downs, ErrRestarted)
	}
	return b.got["late"]
}

func TestAFrameOfAnEarlierLifeIsNotDelivered(t *testing.T) {
	if n := earlierLife(t, mutate.None); n != 0 {
		t.Errorf("a frame of an earlier life was delivered %d times", n)
	}
	if n := earlierLife(t, mutate.OldIncarnation); n != 1 {
		t.Errorf("with the defect, it was delivered %d times; the test would not notice", n)
	}
}
