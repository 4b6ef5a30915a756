package vni

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// A bell wakes the other side. A ring before the wait is not lost; several rings may count as one.
type bell interface {
	ring()
	wait() error // fails if the bell does not ring for far too long: a lost wake-up
}

type chanBell chan struct{}

func (b chanBell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

func (b chanBell) wait() error {
	select {
	case <-b:
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("the bell did not ring: lost wake-up")
	}
}

// idlePolls is how many polls find nothing before either side goes to sleep: few, so that both
// sleep thousands of times.
const idlePolls = 3

// hammerProcess sends total short messages and receives as many. As many are in flight as there
// are contexts. It parks whenever nothing has happened.
func hammerProcess(p *Process, total int, kick, wake bell) error {
	var posted, ended [2]int
	m := p.s.geo.Contexts
	serial := [2][]int{make([]int, m), make([]int, m)}
	for idle := 0; ended[0] < total || ended[1] < total; {
		work := false
		for l := range posted {
			for posted[l] < total && p.Room(1) {
				i, ok := hammerTake(p, l)
				if !ok {
					break
				}
				serial[l][i] = posted[l]
				hammerPost(p, l, i, posted[l])
				if p.MustKick() {
					kick.ring()
				}
				posted[l]++
				work = true
			}
			for i := range m {
				if p.Doorbell(l == receiveList, i) != Done {
					continue
				}
				c := p.Completion(l == receiveList, i)
				if c.Tag != uint64(serial[l][i]) || c.Len != uint64(serial[l][i]%limits.ShortMessage) {
					return fmt.Errorf("list %d, operation %d: completion %+v", l, serial[l][i], c)
				}
				p.Release(l == receiveList, i)
				ended[l]++
				work = true
			}
		}
		if work {
			idle = 0
			continue
		}
		if idle++; idle < idlePolls {
			runtime.Gosched()
			continue
		}
		idle = 0
		p.SetSleeping(true)
		if !hammerReady(p) {
			if err := wake.wait(); err != nil {
				return fmt.Errorf("process: %w; ended %v of %d", err, ended, total)
			}
		}
		p.SetSleeping(false)
	}
	return nil
}

func hammerReady(p *Process) bool {
	for i := range p.s.geo.Contexts {
		if p.Doorbell(false, i) == Done || p.Doorbell(true, i) == Done {
			return true
		}
	}
	return false
}

func hammerTake(p *Process, l int) (int, bool) {
	if l == receiveList {
		return p.TakeReceive()
	}
	return p.TakeSend()
}

func hammerPost(p *Process, l, i, serial int) {
	length := serial % limits.ShortMessage
	if l == receiveList {
		p.SetReceive(i, &ReceiveContext{Tag: uint64(serial), PoolIndex: NoPool, Size: 1, Len: uint64(length), Flags: WantNotify})
		p.SetDescriptors(true, i, []Descriptor{{Offset: uint64(serial), Len: uint64(length)}})
		p.Post(Command{Code: CodeReceive, Context: uint16(i), Group: uint32(serial)})
		return
	}
	b := p.Inline(i)
	for k := range b[:length] {
		b[k] = byte(serial + k)
	}
	p.SetSend(i, &SendContext{Tag: uint64(serial), PoolIndex: NoPool, Size: 1, Len: uint64(length), Flags: WantNotify})
	p.Post(Command{Code: CodeSendShort, Context: uint16(i), Group: uint32(serial)})
}

// hammerNIC serves 2 × total operations and completes each a few commands after it was read. It
// stops listening whenever nothing has happened. sleeps is how often it did.
func hammerNIC(n *NIC, total int, kick, wake bell) (sleeps int, err error) {
	type pending struct {
		receive bool
		i       int
		c       Completion
	}
	var held []pending
	var next [2]int
	n.Listen()
	for done, idle := 0, 0; done < 2*total; {
		c, ok := n.Next()
		if ok {
			l, completion, err := hammerServe(n, c)
			if err != nil {
				return sleeps, err
			}
			if int(c.Group) != next[l] {
				return sleeps, fmt.Errorf("command %d of list %d came as %d", next[l], l, c.Group)
			}
			next[l]++
			held = append(held, pending{l == receiveList, int(c.Context), completion})
		}
		if len(held) > 5 || !ok && len(held) > 0 {
			k := len(held) / 2 // out of order
			h := held[k]
			held = append(held[:k], held[k+1:]...)
			if err := n.Complete(h.receive, h.i, &h.c, true); err != nil {
				return sleeps, err
			}
			if done++; n.Sleeping() {
				wake.ring()
			}
			idle = 0
			continue
		}
		if ok {
			idle = 0
			continue
		}
		if idle++; idle < idlePolls {
			runtime.Gosched()
			continue
		}
		idle = 0
		if n.StopListening() {
			sleeps++
			if err := kick.wait(); err != nil {
				return sleeps, fmt.Errorf("NIC: %w; %d done", err, done)
			}
			n.Listen()
		}
	}
	return sleeps, nil
}

func hammerServe(n *NIC, c Command) (l int, done Completion, err error) {
	if c.Code == CodeReceive {
		r, err := receiveOf(n, int(c.Context))
		if err != nil {
			return receiveList, done, err
		}
		d, err := n.Descriptors(true, int(c.Context), 1, nil)
		if err == nil && (d[0].Offset != r.Tag || d[0].Len != r.Len) {
			err = fmt.Errorf("receive %d has descriptor %+v", r.Tag, d[0])
		}
		return receiveList, Completion{Tag: r.Tag, Len: r.Len}, err
	}
	s, err := sendOf(n, int(c.Context))
	if err != nil {
		return sendList, done, err
	}
	for k, b := range n.Inline(int(c.Context), int(s.Len)) {
		if b != byte(int(s.Tag)+k) {
			return sendList, done, fmt.Errorf("message %d: byte %d is %d", s.Tag, k, b)
		}
	}
	return sendList, Completion{Tag: s.Tag, Len: s.Len}, nil
}

// Run this with CGO_ENABLED=1 and -race: the race detector sees only heap memory.
func TestHammerByTwoGoroutines(t *testing.T) {
	for _, g := range []Geometry{DefaultGeometry(false), {Commands: 16, Contexts: 8, Descriptors: 1, Colour: 5}, {Commands: 16, Contexts: 1, Descriptors: 1}} {
		_, p, n := newSegment(t, g)
		kick, wake := make(chanBell, 1), make(chanBell, 1)
		const total = 8000
		errs := make(chan error, 1)
		go func() { errs <- hammerProcess(p, total, kick, wake) }()
		sleeps, err := hammerNIC(n, total, kick, wake)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		t.Logf("%d contexts: the NIC stopped listening %d times", g.Contexts, sleeps)
	}
}

func TestHammerEvents(t *testing.T) {
	_, p, n := newSegment(t, small)
	const total = 20000
	go func() {
		for i := range uint64(total) {
			n.Event(Event{Kind: EventRestarted, NIC: i, Gen: uint32(i), Count: i, Name: Name{Index: uint32(i)}})
		}
	}()
	seen, lostAll := uint64(0), uint64(0)
	for seen+lostAll < total {
		e, lost, ok := p.NextEvent()
		lostAll += lost
		if !ok {
			runtime.Gosched()
			continue
		}
		if i := seen + lostAll; e.NIC != i || e.Count != i || uint64(e.Gen) != i || uint64(e.Name.Index) != i {
			t.Fatalf("event %+v, want number %d after %d lost", e, i, lostAll)
		}
		seen++
	}
	t.Logf("%d read, %d lost", seen, lostAll)
}

// Whatever a process writes, the NIC half must neither panic nor leave the segment.
func FuzzHostileProcess(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, junk []byte) {
		g := Geometry{Commands: 16, Contexts: 3, Descriptors: 4, PoolPages: 1}
		s, _, n := newSegment(t, g)
		words := func(k int) uint64 { // endless words from the junk
			if len(junk) == 0 {
				return 0
			}
			var b [8]byte
			for i := range b {
				b[i] = junk[(8*k+i)%len(junk)]
			}
			return binary.LittleEndian.Uint64(b[:])
		}
		for round := range 8 {
			at := int(words(round)%uint64(len(s.rw)/8)) * 8
			for k := 0; k < 8+len(junk)/8 && at+8*k+8 <= len(s.rw); k++ {
				binary.LittleEndian.PutUint64(s.rw[at+8*k:], words(round+k))
			}
			for _, bells := range s.bells {
				for i := range bells {
					if words(round+i)&1 != 0 {
						bells[i] = uint32(Used)
					}
				}
			}
			hostileRound(t, n)
		}
	})
}

func hostileRound(t *testing.T, n *NIC) {
	g := n.s.geo
	for range 2 * g.Commands {
		c, ok := n.Next()
		if !ok {
			break
		}
		i := int(c.Context)
		if sc, err := sendOf(n, i); err == nil {
			if sc.PoolIndex != NoPool && int(sc.PoolIndex)+int(sc.Size) > g.PoolPages {
				t.Fatalf("pool range beyond the pool: %+v", sc)
			}
			if b := n.Inline(i, int(sc.Len)); len(b) > limits.ShortMessage {
				t.Fatalf("short message of %d bytes", len(b))
			}
			if d, err := n.Descriptors(false, i, int(sc.Size), nil); err == nil && len(d) > g.Descriptors {
				t.Fatalf("%d descriptors", len(d))
			}
		}
		if rc, err := receiveOf(n, i); err == nil && rc.Len > limits.MaxRegion {
			t.Fatalf("buffer of %d bytes", rc.Len)
		}
		_ = n.Complete(c.Size&1 != 0, i, &Completion{Status: StatusBadArgument}, c.Group&1 != 0)
	}
	n.StopListening()
	n.Sleeping()
	n.Event(Event{})
	if n.head >= uint32(g.Commands) {
		t.Fatalf("head %d", n.head)
	}
}
