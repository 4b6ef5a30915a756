package stream

import (
	"io"
	"net"
)

// Bytes that may wait to be read.
const (
	readBuffer  = 1 << 20
	leastBuffer = 4 << 10
	mostBuffer  = 16 << 20
)

// Read reads what has come, and waits if nothing has. Behind the last byte of a peer that has ended its direction it returns [io.EOF].
func (c *Conn) Read(b []byte) (int, error) {
	if err := c.reading.Wait(c.h.ctx); err != nil {
		return 0, c.opError("read", c.h.gone())
	}
	defer c.reading.Open()
	for {
		n, err := c.readNow(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, c.opError("read", err)
		}
		c.waitToRead()
		if n := c.readWanted(); n > 0 {
			return n, nil
		}
	}
}

// waitToRead waits for something to come, by taking it in itself if no other call waits.
func (c *Conn) waitToRead() {
	c.mu.Lock()
	if c.leadCtx == nil {
		c.leadCtx, c.stopLead = c.within(c.readEnd)
	}
	ctx := c.leadCtx
	c.mu.Unlock()
	if c.h.pump.lead(ctx) {
		return
	}
	c.count(true)
	_ = c.readable.Wait(ctx)
	c.count(false)
}

// count notes whether a Read waits for another to take in what comes. It does not from when that has come: the next Read may do it.
func (c *Conn) count(waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countLocked(waits && c.got == 0 && c.state == stateOpen && !c.finished)
}

func (c *Conn) countLocked(waits bool) {
	if waits != c.counted {
		c.counted = waits
		n := -1
		if waits {
			n = 1
		}
		c.h.pump.awaitRead(n)
	}
}

// readNow reads what there is; of nothing it leaves word where the next bytes are wanted.
func (c *Conn) readNow(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateClosed {
		return 0, net.ErrClosed
	}
	if err := c.late(c.readEnd); err != nil || len(b) == 0 {
		return 0, err
	}
	switch {
	case c.in.len() > 0:
		n = c.in.read(b)
		c.took(n)
	case c.state == stateFailed:
		err = c.err
	case c.finished:
		err = io.EOF
	default:
		c.want, c.got = b, 0
	}
	return n, err
}

// readWanted ends the wait for bytes, and returns how many have come.
func (c *Conn) readWanted() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.want, c.got = c.got, nil, 0
	if n > 0 {
		c.took(n)
	}
	if c.late(c.readEnd) != nil {
		c.stopReading() // its context has ended; there may be another deadline
	}
	return n
}

// took notes that bytes were read. Under mu.
func (c *Conn) took(n int) {
	c.taken += uint64(n)
	c.grant()
}

// grant tells the peer of more room if that is worth a message: once a half of the buffer, which so never runs dry where the peer is quick.
func (c *Conn) grant() {
	if upTo := c.taken + c.buffer; upTo >= c.granted+c.buffer/2 && !c.finished && c.state == stateOpen {
		c.granted = upTo
		c.oweLocked(dutyWindow)
	}
}

// WriteTo implements [io.WriterTo]: what has come is written from where it lies.
func (c *Conn) WriteTo(w io.Writer) (sum int64, err error) {
	var first [leastRing]byte
	for {
		if err := c.reading.Wait(c.h.ctx); err != nil {
			return sum, c.opError("read", c.h.gone())
		}
		c.mu.Lock()
		b := c.in.first()
		ok := len(b) > 0 && c.state != stateClosed && c.late(c.readEnd) == nil
		c.mu.Unlock()
		if !ok {
			c.reading.Open()
			n, err := c.Read(first[:])
			if err != nil || n == 0 {
				if err == io.EOF {
					err = nil
				}
				return sum, err
			}
			n, err = w.Write(first[:n])
			if sum += int64(n); err != nil {
				return sum, err
			}
			continue
		}
		n, err := w.Write(b)
		c.mu.Lock()
		c.in.skip(n)
		c.took(n)
		c.mu.Unlock()
		c.reading.Open()
		if sum += int64(n); err != nil {
			return sum, err
		}
	}
}
