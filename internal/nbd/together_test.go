package nbd

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// The number of short reads that are carried out together is limited, however many have arrived.
// All get their data.
func TestShortReadsThatAreDoneTogetherAreBounded(t *testing.T) {
	const reads = 2*mostShort + 5
	dev := &together{memory: newMemory(4 * memoryBlock)}
	for i := range dev.b {
		dev.b[i] = byte(i)
	}
	s, err := New(Config{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s)
	c.begin(false)
	var all []byte
	for i := range uint64(reads) {
		all = append(all, wire(0, cmdRead, i, i, 1)...)
	}
	go func() { _, _ = c.c.Write(all) }()
	replies := make([]byte, reads*(simpleLen+1))
	if _, err := io.ReadFull(c.c, replies); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for ; len(replies) > 0; replies = replies[simpleLen+1:] {
		cookie := binary.BigEndian.Uint64(replies[8:])
		seen[cookie] = true
		if replies[simpleLen] != byte(cookie) || binary.BigEndian.Uint32(replies[4:]) != 0 {
			t.Errorf("read %d has %d, and the error %d", cookie, replies[simpleLen], binary.BigEndian.Uint32(replies[4:]))
		}
	}
	if len(seen) != reads || dev.most != mostShort {
		t.Errorf("%d reads have a reply, and at most %d were done together; expected %d and %d", len(seen), dev.most, reads, mostShort)
	}
	c.finish()
	if s.budget.left != maxUnderWay {
		t.Errorf("%d bytes of the budget are gone", maxUnderWay-s.budget.left)
	}
}

// Short reads that fail, and those whose client has disconnected, return their memory.
func TestShortReadsThatFailLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reads := range []bool{true, false} {
			dev := &together{memory: newMemory(memoryBlock)}
			dev.stuck = true
			lines := 0
			s, err := New(Config{Device: dev, Log: func(string) { lines++ }})
			if err != nil {
				t.Fatal(err)
			}
			here, there := net.Pipe()
			c := &client{t, here, make(chan error, 1)}
			go func() { c.ended <- s.ServeConn(t.Context(), there) }()
			c.begin(false)
			begun := time.Now()
			c.send(string(wire(0, cmdRead, 1, 0, 100)), string(wire(0, cmdRead, 2, 0, 200)), string(wire(0, cmdRead, 3, 0, 300)))
			if reads {
				for cookie := uint64(3); cookie > 0; cookie-- {
					c.simple("a read that fails", errIO, cookie)
				}
				if took := time.Since(begun); took != patience || lines != 3 {
					t.Errorf("the reads fail after %v, with %d lines; expected %v, 3", took, lines, patience)
				}
				dev.stuck = false
				c.request(0, cmdRead, 4, 0, 1)
				c.simple("a read behind them", 0, 4, "\x00")
				c.finish()
			}
			here.Close()
			if !reads {
				if err := <-c.ended; err == nil || time.Since(begun) > 2*patience {
					t.Errorf("a client that is gone ends with %v after %v", err, time.Since(begun))
				}
			}
			if s.budget.left != maxUnderWay {
				t.Errorf("%d bytes of the budget are gone", maxUnderWay-s.budget.left)
			}
		}
	})
}

// A worker keeps its turn for a short time. Then the stand-in gives the turn to another worker,
// and for a while no worker keeps its turn. The stand-in sleeps while there is nothing to watch,
// and is woken.
func TestTheTurnOfAWorkerThatKeepsItIsGivenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Device: newMemory(4096)})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		n := newConn(s, there)
		ctx, cancel := context.WithCancel(t.Context())
		n.cancel = cancel
		n.standIn.wg.Go(func() { n.stand(ctx) })
		<-n.turn
		n.waiting, n.workers = 1, 1 // this worker
		for range 3 {
			number := n.standIn.begin()
			if !n.standIn.end(number) || n.standIn.end(number) {
				t.Error("a worker that is done at once has lost its turn, or has it twice")
			}
		}
		for _, quiet := range []time.Duration{0, (restAfter + 10) * lookEvery} {
			time.Sleep(quiet)
			synctest.Wait()
			if asleep := n.standIn.asleep.Load(); asleep != (quiet > 0) {
				t.Errorf("behind %v without reads the stand-in sleeps: %v", quiet, asleep)
			}
			number := n.standIn.begin()
			time.Sleep(lookEvery / 2)
			if n.standIn.reads.Load() != number {
				t.Error("the turn is given away at once")
			}
			time.Sleep(4 * lookEvery)
			synctest.Wait()
			if n.standIn.end(number) || n.standIn.careful.Load() != careFor || n.workers != 2 {
				t.Errorf("the turn of a worker that keeps it is not given away: %d workers", n.workers)
			}
			for i := range careFor + 1 {
				if n.standIn.quick() != (i == careFor) {
					t.Errorf("behind that, request %d is done in its worker's turn: %v", i, i != careFor)
				}
			}
			// An invalid request, which ends the other worker.
			_, _ = here.Write(make([]byte, requestLen))
			n.wg.Wait()
			if quiet == 0 {
				<-n.turn
				n.waiting, n.workers, n.ended = 1, 1, false
			}
		}
		cancel()
		n.standIn.wg.Wait()
		here.Close()
		there.Close()
	})
}
