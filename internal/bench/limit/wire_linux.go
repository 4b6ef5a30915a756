package limit

import (
	"encoding/binary"
	"time"
)

// wire carries datagrams to one other.
type wire interface {
	// send sends a message, in as many datagrams as it needs.
	send(b []byte) error
	// receive returns datagrams that have come, one behind the other, or nothing. What it returns is good until the
	// next call. A wire that blocks waits for some, but not longer than resend.
	receive() ([]byte, error)
	// fd becomes readable when a datagram has come.
	fd() int
	// piece is how much of a message a datagram carries.
	piece() int
}

// waiting is what a role does between two looks.
type waiting uint8

const (
	busy           waiting = iota // nothing
	yielding                      // sched_yield
	blocking                      // sleeps until something comes
	yieldThenBlock                // yields for a while, and sleeps then
)

// numberBytes are at the beginning of each datagram: the number of the message.
const numberBytes = 8

// resend is how long an answer may take: a network may lose what it carries.
const resend = 50 * time.Millisecond

// message makes a message of the job's size, with room for the number.
func (c *child) message() []byte { return make([]byte, max(c.Size, numberBytes)) }

// number puts a message's number where each of its datagrams begins.
func number(b []byte, piece int, n uint64) {
	for at := 0; at+numberBytes <= len(b); at += piece {
		binary.LittleEndian.PutUint64(b[at:], n)
	}
}

// pings is a role that makes round trips over a wire, and pongs is the one at its other end.
func pings(open func(*child) (wire, error), how waiting) func(*child) error {
	return func(c *child) error {
		w, err := open(c)
		if err != nil {
			return err
		}
		return c.ping(w, how)
	}
}

func pongs(open func(*child) (wire, error), how waiting) func(*child) error {
	return func(c *child) error {
		w, err := open(c)
		if err != nil {
			return err
		}
		return c.pong(w, how)
	}
}

// ping measures the round trips of messages over a wire.
func (c *child) ping(w wire, how waiting) error {
	out := c.message()
	n := uint64(0)
	return c.time(1, func() error {
		for {
			n++
			number(out, w.piece(), n)
			if err := w.send(out); err != nil {
				return err
			}
			if came, err := answered(w, how, n, len(out)); came || err != nil {
				return err
			}
		}
	})
}

// answered waits for all of message n. It is false if that does not come.
func answered(w wire, how waiting, n uint64, size int) (came bool, err error) {
	var begin time.Time
	for got, looks := 0, 0; got < size; looks++ {
		b, err := w.receive()
		switch {
		case err != nil:
			return false, err
		case len(b) >= numberBytes && binary.LittleEndian.Uint64(b) == n:
			got += len(b)
		case len(b) > 0: // of an earlier one
		case how == blocking:
			return false, nil
		case how == yielding:
			yield()
		}
		if looks%1024 == 1023 {
			now := time.Now()
			if begin.IsZero() {
				begin = now
			}
			if now.Sub(begin) > resend {
				return false, nil
			}
		}
	}
	return true, nil
}

// pong sends every message back that comes whole.
func (c *child) pong(w wire, how waiting) error {
	back := c.message()
	var n uint64
	for got := 0; ; {
		b, err := w.receive()
		if err != nil {
			return err
		}
		if len(b) < numberBytes {
			if how == yielding {
				yield()
			}
			continue
		}
		if m := binary.LittleEndian.Uint64(b); m != n {
			n, got = m, 0
		}
		if got += len(b); got < len(back) {
			continue
		}
		if len(b) == len(back) {
			err = w.send(b)
		} else {
			number(back, w.piece(), n)
			err = w.send(back)
		}
		if err != nil {
			return err
		}
	}
}
