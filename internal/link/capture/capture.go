// Package capture wraps a driver and writes every frame, in and out, as a capture file that Wireshark opens.
//
//	engine ─ Reserve, Commit ─►┌─────────┐─► driver        chunks           writer's goroutine
//	       ◄─────── Receive ───│ capture │◄──            ┌──┬──┬──┐  full  ┌─────────────────┐
//	                           └────┬────┘   ──copy────► │  │  │  │ ─────► │ IP, UDP, pcapng │─► io.Writer
//	                                                     └──┴──┴──┘ ◄───── └─────────────────┘
//	                                                                 empty
//
// The format is pcapng with link type RAW: each frame gets the IP and UDP headers that its addresses suggest, whatever
// the link below is, and the direction as packet flag. A frame that is so long that no IP packet holds it is cut in the
// file, with its true length noted, and so is what is longer than the snap length.
//
// Capturing never waits and never changes a frame. The engine copies each frame into memory of bounded size, with the time: before it leaves, or
// after it has come. A goroutine writes what is 100 ms old, without the engine, which may have nothing to do by then. If it falls behind, frames
// are missing in the file (Missed, and the statistics block at the file's end) and not on the link. A file that has reached its limit has no more
// frames, and neither has one after an error of writing, which Close reports. Either is told at once; what is missing is counted, and told in the end.
//
// # Keys
//
// A capture with Config.Secrets also has the keys of sealed frames, in Decryption Secrets Blocks of
// the type 0x57464b4c ("WFKL"), which is Weft's own; other readers skip it. Their text has one line
// for each key, with seven words:
//
//	WEFT_KEY out 1f3a0007 AES-128-GCM 3 1201 00112233445566778899aabbccddeeff
//	         │   │        │           │ │    └ the key, in hexadecimal
//	         │   │        │           │ └ packet counter of the first frame, or of the first that arrived
//	         │   │        │           └ phase of its direction, from 0; its frames have the lowest bit as their phase bit
//	         │   │        └ AES-128-GCM or ChaCha20-Poly1305
//	         │   └ index of the session in the outer headers, in hexadecimal
//	         └ the NIC of the capture sends (out) or receives (in) the frames
//
// A block stands before the frames that leave with its keys. Frames that arrive are recorded before
// the NIC has looked at them, so a few can stand before the block with their key: a reader collects
// all keys first. Decrypt does so.
package capture

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/seal"
)

// Config says how to capture. The zero value is good.
type Config struct {
	Name string // of the interface, in the file; "" = "weft"
	// Clock is the engine's clock, which is read for each frame, or run of frames, that passes. nil suits simulations, in which time stands
	// still between the calls that tell it: a frame has the time of the last one.
	Clock func() clock.Time

	Base   time.Time // the wall clock's time when the engine's clock says 0; the zero Time means the Unix epoch
	Buffer int       // bytes of memory for frames that are not written yet; 0 = limits.CaptureBuffer
	Snap   int       // bytes of each frame that are written; 0 = limits.CaptureSnap
	Limit  int64     // bytes of the file; 0 = limits.CaptureFile

	Secrets bool // the file also gets the keys of sealed frames: see Keys

	// Log, if set, is told in a sentence that no more frames are written, because the file has reached its limit or for an error, and in the end
	// what is in it and what is not. The first comes from the writer's goroutine.
	Log func(text string)

	// Failed, if set, is told in place of Log that writing has failed and that no more frames are written. The writer's goroutine
	// calls it, once.
	Failed func(text string)

	// Inline writes in Poll, Flush and Close, without a goroutine: nothing is missed and everything happens in the order
	// of calls, which suits simulations. The engine then waits for the io.Writer.
	Inline bool
}

// Driver is the wrapped driver.
type Driver struct {
	link.Driver // the driver below

	below    link.Caps // what it can do besides
	rec      recorder
	clock    func() clock.Time
	now      clock.Time  // of the last call that told the time
	reserved []byte      // the open reservation,
	to       link.Addr   // where it goes,
	size     int         // and how long its frames are if it is one for a run
	seen     []link.Addr // whose next frame has been recorded already, by Peek
	peeked   link.Addr   // of these, the last
	single   []byte      // a frame of PostLone
	tap      tap
	receiver link.Receiver // during a Poll
	secrets  bool
	closed   bool
	err      error // what Close said
}

var _ link.Driver = (*Driver)(nil)

// Wrap captures what passes d and writes it to w. If w is an io.Closer, Close closes it. The error is that of writing
// the file's beginning.
func Wrap(d link.Driver, w io.Writer, cfg Config) (*Driver, error) {
	if cfg.Buffer == 0 {
		cfg.Buffer = limits.CaptureBuffer
	}
	if cfg.Snap == 0 {
		cfg.Snap = limits.CaptureSnap
	}
	if cfg.Limit == 0 {
		cfg.Limit = limits.CaptureFile
	}
	if cfg.Base.IsZero() {
		cfg.Base = time.Unix(0, 0)
	}
	if cfg.Name == "" {
		cfg.Name = "weft"
	}
	out, err := newWriter(w, cfg)
	if err != nil {
		return nil, fmt.Errorf("capture: begin the file: %w", err)
	}
	c := &Driver{Driver: d, below: d.Caps(), single: make([]byte, d.MTU()), clock: cfg.Clock, secrets: cfg.Secrets}
	if c.clock == nil {
		c.clock = func() clock.Time { return c.now }
	}
	c.tap.c = c
	c.rec.start(out, cfg)
	return c, nil
}

// Keys returns the function that a NIC calls with each key that its sessions begin to use. It
// returns nil unless Config.Secrets is set. The engine's thread calls the function, which never
// waits.
func (c *Driver) Keys() func(seal.KeyLog) {
	if !c.secrets {
		return nil
	}
	return func(k seal.KeyLog) {
		if !c.closed {
			c.rec.key(k)
		}
	}
}

// Missed is how many frames passed that are not in the file, because writing fell behind or has failed, or the file is full.
func (c *Driver) Missed() uint64 {
	return c.rec.missed + c.rec.out.lost.Load() + c.rec.out.beyond.Load()
}

// Counters implements link.Driver.
func (c *Driver) Counters(to *link.Counters) {
	c.Driver.Counters(to)
	to.CaptureMissed += c.Missed()
}

// Reserve implements link.Driver.
func (c *Driver) Reserve(to link.Addr) []byte {
	c.reserved, c.to = c.Driver.Reserve(to), to
	return c.reserved
}

// Commit implements link.Driver. The frame is recorded first: afterwards its memory is the driver's.
func (c *Driver) Commit(n int) {
	if n >= 0 && n <= len(c.reserved) && c.reserved != nil {
		c.recordOut(c.clock(), c.reserved[:n])
	}
	c.reserved = nil
	c.Driver.Commit(n)
}

// recordOut records a frame for where the open reservation goes.
func (c *Driver) recordOut(at clock.Time, b []byte) {
	if !c.closed {
		c.rec.record(frame{at: at, from: c.Addr(), to: c.to, outbound: true}, b)
	}
}

// recordIn records a frame that has come.
func (c *Driver) recordIn(at clock.Time, from link.Addr, b []byte) {
	if !c.closed {
		c.rec.record(frame{at: at, from: from, to: c.Addr()}, b)
	}
}

// Flush implements link.Driver.
func (c *Driver) Flush(now clock.Time) {
	c.now = now
	c.Driver.Flush(now)
	c.rec.writeInline()
}

// Poll implements link.Driver.
func (c *Driver) Poll(now clock.Time, to link.Receiver) (int, clock.Time) {
	c.now = now
	c.receiver = to
	n, next := c.Driver.Poll(now, &c.tap)
	c.receiver = nil
	c.rec.writeInline()
	return n, next
}

// tap takes what the driver below hands over. It is a type of its own so that Driver has no Receive.
type tap struct{ c *Driver }

func (t *tap) Receive(now clock.Time, from link.Addr, b []byte) {
	if !t.c.forget(from) {
		t.c.recordIn(t.c.clock(), from, b)
	}
	t.c.receiver.Receive(now, from, b)
}

func (t *tap) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	at, known := t.c.clock(), t.c.forget(from) // the first
	for off := 0; off < len(frames); off += size {
		if off > 0 || !known {
			t.c.recordIn(at, from, frames[off:min(off+size, len(frames))])
		}
	}
	t.c.receiver.ReceiveRun(now, from, frames, size)
}

// Close closes the driver below, writes what is recorded, and closes the file. Its error is the driver's, or the first
// one of writing: the capture then ends there.
func (c *Driver) Close() error {
	if c.closed {
		return c.err
	}
	c.closed = true
	err := c.Driver.Close()
	if writing := c.rec.finish(); writing != nil {
		err = errors.Join(err, fmt.Errorf("capture: %w", writing))
	}
	c.err = err
	return err
}
