// Package capture wraps a driver and writes every frame, in and out, to a capture file that
// Wireshark opens.
//
//	engine ─ Reserve, Commit ─►┌─────────┐─► driver  chunks           writer's goroutine
//	       ◄─────── Receive ───│ capture │◄──       ┌──┬──┬──┐  full  ┌───────────────┐
//	                           └────┬────┘ ─copy─► │  │  │  │ ─────► │IP, UDP, pcapng│─► io.Writer
//	                                               └──┴──┴──┘ ◄───── └───────────────┘
//	                                                           empty
//
// The format is pcapng with link type RAW. Each frame gets the IP and UDP headers that match its
// addresses, whatever the link below is, and its direction as a packet flag. A frame that
// exceeds an IP packet or the snap length is cut in the file, with its true length recorded.
//
// A capture never waits and never changes a frame. The engine copies each frame, with the time,
// into memory of bounded size: outgoing frames before they leave, incoming ones after they have
// arrived. A goroutine writes frames that are 100 ms old without the engine, which may be idle
// by then. If it falls behind, frames are missing in the file (Missed, and the statistics block
// at the file's end), but not on the link. After the file has reached its limit, or after a
// write error, which Close returns, no more frames are written. Both events are reported at
// once. Missing frames are counted, and reported at the end.
//
// # Keys
//
// A capture with Config.Secrets also holds the keys of sealed frames, in Decryption Secrets
// Blocks of the type 0x57464b4c ("WFKL"). This type is Weft's own, and other readers skip it.
// The text of a block has one line of seven words for each key:
//
//	WEFT_KEY out 1f3a0007 AES-128-GCM 3 1201 00112233445566778899aabbccddeeff
//	         │   │        │           │ │    └ the key, in hexadecimal
//	         │   │        │           │ └ packet counter of the first frame,
//	         │   │        │           │   or of the first that arrived
//	         │   │        │           └ phase of its direction from 0; frames have its lowest bit
//	         │   │        └ AES-128-GCM or ChaCha20-Poly1305
//	         │   └ index of the session in the outer headers, in hexadecimal
//	         └ the NIC of the capture sends (out) or receives (in) the frames
//
// A block comes before the outgoing frames with its keys. Incoming frames are recorded before
// the NIC has looked at them, so a few can come before the block with their key. Readers collect
// all keys first, as Decrypt does.
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

// Config holds the parameters of a capture. The zero value is valid.
type Config struct {
	Name string // of the interface, in the file; "" means "weft"
	// Clock is the engine's clock. It is read for each frame, or run of frames. nil is for
	// simulations, in which time stands still between the calls that pass it: each frame gets
	// the time of the last one.
	Clock func() clock.Time

	// Base is the wall clock's time at time 0 of the engine's clock. The zero Time means the
	// Unix epoch.
	Base   time.Time
	Buffer int   // memory for unwritten frames, in bytes; 0 means limits.CaptureBuffer
	Snap   int   // bytes of each frame to write; 0 means limits.CaptureSnap
	Limit  int64 // bytes of the file; 0 means limits.CaptureFile

	Secrets bool // also write the keys of sealed frames: see Keys

	// Log, if not nil, is called with a sentence when no more frames are written, because the
	// file has reached its limit or writing has failed. The writer's goroutine makes this call.
	// In the end Log gets the numbers of written and missing frames.
	Log func(text string)

	// Failed, if not nil, is called instead of Log when writing has failed and no more frames
	// are written. The writer's goroutine calls it, once.
	Failed func(text string)

	// Inline makes Poll, Flush and Close write the file, without a goroutine. Then no frame is
	// missing, and everything happens in the order of calls, as simulations need. The engine
	// waits for the io.Writer.
	Inline bool
}

// Driver is the wrapped driver.
type Driver struct {
	link.Driver // the driver below

	below    link.Caps // capabilities of the driver below
	rec      recorder
	clock    func() clock.Time
	now      clock.Time  // time of the last call that passed one
	reserved []byte      // the open reservation
	to       link.Addr   // its destination
	size     int         // length of its frames, if it is for a run
	seen     []link.Addr // senders whose next frame was recorded by Peek
	peeked   link.Addr   // sender of the last Peek
	single   []byte      // a frame of PostLone
	tap      tap
	receiver link.Receiver // the receiver, during a Poll
	secrets  bool
	closed   bool
	err      error // result of Close
}

var _ link.Driver = (*Driver)(nil)

// Wrap records the frames that pass d, and writes them to w. If w is an io.Closer, Close closes
// it. The error is that of writing the file's beginning.
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

// Missed returns the number of frames that passed and are not in the file, because writing fell
// behind or has failed, or because the file is full.
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

// Commit implements link.Driver. It records the frame first, since the memory is the driver's
// afterwards.
func (c *Driver) Commit(n int) {
	if n >= 0 && n <= len(c.reserved) && c.reserved != nil {
		c.recordOut(c.clock(), c.reserved[:n])
	}
	c.reserved = nil
	c.Driver.Commit(n)
}

// recordOut records a frame to the destination of the open reservation.
func (c *Driver) recordOut(at clock.Time, b []byte) {
	if !c.closed {
		c.rec.record(frame{at: at, from: c.Addr(), to: c.to, outbound: true}, b)
	}
}

// recordIn records a frame that has arrived.
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

// tap is the receiver for the driver below. It is a separate type so that Driver has no method
// Receive.
type tap struct{ c *Driver }

func (t *tap) Receive(now clock.Time, from link.Addr, b []byte) {
	if !t.c.forget(from) {
		t.c.recordIn(t.c.clock(), from, b)
	}
	t.c.receiver.Receive(now, from, b)
}

func (t *tap) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	at, known := t.c.clock(), t.c.forget(from) // of the first frame
	for off := 0; off < len(frames); off += size {
		if off > 0 || !known {
			t.c.recordIn(at, from, frames[off:min(off+size, len(frames))])
		}
	}
	t.c.receiver.ReceiveRun(now, from, frames, size)
}

// Close closes the driver below, writes the recorded frames, and closes the file. It returns the
// errors of the driver and of writing; the first write error ends the capture.
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
