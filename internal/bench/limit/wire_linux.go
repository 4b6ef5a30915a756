package limit

import (
	"encoding/binary"
	"time"
)

// wire carries datagrams between two roles.
type wire interface {
	// send sends a message, in as many datagrams as it needs.
	send(b []byte) error
	// receive returns consecutive datagrams that have come, or nothing. The result is valid
	// until the next call. A wire that blocks waits for a datagram, but not longer than resend.
	receive() ([]byte, error)
	// fd becomes readable when a datagram has come.
	fd() int
	// piece returns how much of a message one datagram carries, in bytes.
	piece() int
}

// waiting is what a role does between two checks.
type waiting uint8

const (
	busy           waiting = iota // nothing
	yielding                      // sched_yield
	blocking                      // sleeps until a datagram comes
	yieldThenBlock                // yields for a while, and then sleeps
)

// numberBytes is the length of the message's number, with which each datagram begins.
const numberBytes = 8

// resend is how long an answer may take before the message is sent again: a network may lose
// datagrams.
const resend = 50 * time.Millisecond

// message makes a message of the job's size, with room for the number.
func (c *child) message() []byte { return make([]byte, max(c.Size, numberBytes)) }

// number writes a message's number to the start of each of its datagrams.
func number(b []byte, piece int, n uint64) {
	for at := 0; at+numberBytes <= len(b); at += piece {
		binary.LittleEndian.PutUint64(b[at:], n)
	}
}

// pings returns a role that makes round trips over a wire. pongs returns the role at its other
// end.
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

// answered waits for all of message n. It returns false if the message does not come in time.
func answered(w wire, how waiting, n uint64, size int) (came bool, err error) {
	var begin time.Time
	for got, looks := 0, 0; got < size; looks++ {
		b, err := w.receive()
		switch {
		case err != nil:
			return false, err
		case len(b) >= numberBytes && binary.LittleEndian.Uint64(b) == n:
			got += len(b)
		case len(b) > 0: // an earlier message
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

// pong returns every message that comes whole.
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
