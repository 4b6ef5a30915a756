package proc

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// receipts returns the receipts of the next n received calls.
func (a *answered) receipts(n int) (rs []uint32) {
	for range n {
		t := Token(callBit | 1)
		a.received(&t)
		rs = append(rs, t.receipt())
	}
	return rs
}

func TestACallAmongTheNewestIsAnsweredOnce(t *testing.T) {
	// The last values let the receipts wrap around.
	for _, start := range []uint32{0, 1<<16 - 5, 1<<32 - 1000, 1<<32 - answeredCalls - 7} {
		var a answered
		a.last.Store(start)
		rs := a.receipts(3 * answeredCalls)
		old, newest := rs[:2*answeredCalls], rs[2*answeredCalls:]
		for i := range newest {
			r := newest[(i*7919)%len(newest)] // in any order
			if !a.take(r) || a.take(r) {
				t.Fatalf("receipts from %d on: call %d was not answered once", start, r)
			}
			a.giveBack(r)
			if !a.take(r) || a.take(r) {
				t.Fatalf("receipts from %d on: call %d, whose reply had failed, was not answered once", start, r)
			}
		}
		for _, r := range []uint32{old[0], old[answeredCalls], old[len(old)-40]} {
			for range 2 {
				if !a.take(r) {
					t.Fatalf("receipts from %d on: call %d is too old to be remembered, and was refused", start, r)
				}
			}
			a.giveBack(r)
		}
		for _, r := range newest {
			if a.take(r) {
				t.Fatalf("receipts from %d on: call %d was answered again behind an old one", start, r)
			}
		}
	}
}

func TestNoReceiptIsZero(t *testing.T) {
	var a answered
	a.last.Store(1<<32 - 3)
	seen := map[uint32]bool{0: true}
	for _, r := range a.receipts(5) {
		if seen[r] {
			t.Errorf("receipt %d is 0, or was given out twice", r)
		}
		seen[r] = true
	}
}

func TestOneOfManyGoroutinesAnswersACall(t *testing.T) {
	var a answered
	const each = 8 // goroutines, which also answer a neighbour in the same word
	all := a.receipts(500 * (each + 1))
	for i := 0; i < len(all); i += each + 1 {
		var answers, neighbours atomic.Int32
		var wg sync.WaitGroup
		for k := range each {
			wg.Go(func() {
				if a.take(all[i+1+k]) {
					neighbours.Add(1)
				}
				if a.take(all[i]) {
					answers.Add(1)
				}
			})
		}
		wg.Wait()
		if n, others := answers.Load(), neighbours.Load(); n != 1 || others != each {
			t.Fatalf("call %d was answered %d times, and %d of %d others once", all[i], n, others, each)
		}
	}
}

func TestASecondReplyIsRefused(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		for what, receive := range map[uint64]func() (Message, error){
			1: func() (Message, error) { return b.Recv(bg, Dest{}, Tagged(1), make([]byte, 10)) },
			2: func() (Message, error) {
				o, err := b.StartRecv(Dest{}, Tagged(2), make([]byte, 10))
				if err != nil {
					return Message{}, err
				}
				if _, err := o.Wait(bg); err != nil {
					return Message{}, err
				}
				return o.Wait(bg) // two results with the same receipt
			},
		} {
			replied := make(chan error, 1)
			go func() {
				m, err := a.Call(bg, app(t, "app/1"), what, make([]byte, 10), []byte("?"))
				if err == nil && (m.Tag != 0 || m.Len != 5) {
					t.Errorf("the reply has %d bytes and tag %d", m.Len, m.Tag)
				}
				replied <- err
			}()
			m, err := receive()
			if err != nil {
				t.Fatal(err)
			}
			twin := m
			if err := b.Reply(bg, &m, []byte("first")); err != nil {
				t.Errorf("the first reply: %v", err)
			}
			for _, m := range []*Message{&m, &twin} {
				if err := b.Reply(bg, m, []byte("again")); !errors.Is(err, ErrBadArgument) {
					t.Errorf("a second reply: %v", err)
				}
			}
			if err := <-replied; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestACallWhoseReplyHasFailedMayBeAnswered(t *testing.T) {
	_, a, b := parkedPair(t, smallGeometry, true)
	replied := make(chan error, 1)
	go func() {
		_, err := a.Call(bg, app(t, "app/1"), 1, make([]byte, 10), []byte("?"))
		replied <- err
	}()
	m, err := b.Recv(bg, Dest{}, AnyTag, make([]byte, 1))
	if err != nil {
		t.Fatal(err)
	}
	wrong := m
	wrong.Gen++
	if err := b.Reply(bg, &wrong); !errors.Is(err, ErrStaleGeneration) {
		t.Errorf("a reply to an earlier generation: %v", err)
	}
	if err := b.Reply(bg, &m, []byte("yes")); err != nil {
		t.Errorf("the reply behind one that has failed: %v", err)
	}
	if err := <-replied; err != nil {
		t.Error(err)
	}
}
