package capture

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// writer turns recorded frames into packets of a pcapng file.
type writer struct {
	to      io.Writer
	base    time.Time
	limit   int64 // largest length of the file, in bytes
	buf     []byte
	held    uint64 // number of frames in buf
	size    int64  // length of the file so far, including buf
	written uint64
	lost    atomic.Uint64 // recorded frames not written because of err
	beyond  atomic.Uint64 // or because of the limit: the first one and all later ones
	last    time.Time     // time of the last frame
	err     error         // the first error; no frame is written after it
	keys    uint64        // keys in the file
	keyless uint64        // keys without room, or that could not be written
	torn    bool          // because of err the file ends within a block, and has no end
	log     func(text string)
	failed  func(text string) // called instead of log when writing fails; may be nil
}

func newWriter(to io.Writer, cfg Config) (*writer, error) {
	w := &writer{to: to, base: cfg.Base, limit: cfg.Limit, last: cfg.Base, log: cfg.Log, failed: cfg.Failed}
	w.buf = appendHead(nil, cfg.Name, longestPacket(cfg.Snap))
	w.size = int64(len(w.buf))
	if most := w.size + statisticsBytes; most > w.limit {
		return nil, fmt.Errorf("a limit of %d bytes; expected %d or more", w.limit, most)
	}
	_, err := to.Write(w.buf)
	w.buf = w.buf[:0]
	return w, err
}

// write writes a chunk's frames and empties the chunk.
func (w *writer) write(c *chunk) {
	if len(c.keys) > 0 {
		w.addKeys(c.keys)
		clear(c.keys)
	}
	for i := range c.frames {
		f := &c.frames[i]
		if w.err == nil {
			w.add(f, c.bytes[f.off:f.off+f.kept])
		} else {
			w.lost.Add(1)
		}
	}
	if len(w.buf) > 0 {
		w.flush()
	}
	c.bytes, c.frames, c.keys = c.bytes[:0], c.frames[:0], c.keys[:0]
}

// addKeys appends a block with keys to the buffer, if the file has room for it and for its end.
func (w *writer) addKeys(lines []byte) {
	n, size := uint64(bytes.Count(lines, []byte("\n"))), int64(secretsBytes(len(lines)))
	if w.err != nil || w.beyond.Load() > 0 || w.size+size+statisticsBytes > w.limit {
		w.keyless += n
		return
	}
	if w.keys += n; w.keys == n {
		w.say("the file holds keys: whoever reads it can read the sealed frames in it")
	}
	w.buf = appendSecrets(w.buf, lines)
	w.size += size
}

// add appends a packet to the buffer, if the file has room for it and for its end. The first
// packet without room is the end: a file with holes would be less useful.
func (w *writer) add(f *frame, kept []byte) {
	kept = kept[:min(len(kept), longest)]
	n := packetBytes(f.headers() + len(kept))
	if w.beyond.Load() > 0 || w.size+int64(n)+statisticsBytes > w.limit {
		if w.beyond.Add(1) == 1 {
			w.say(fmt.Sprintf("the file has reached its limit of %d bytes: it has %d frames, and no more are written",
				w.limit, w.written+w.held))
		}
		return
	}
	w.last = w.time(f.at)
	w.buf = appendPacket(w.buf, w.last, f, kept)
	w.size += int64(n)
	w.held++
	if len(w.buf) >= chunkBytes {
		w.flush()
	}
}

// flush writes the buffer to the file.
func (w *writer) flush() {
	if n, err := w.to.Write(w.buf); err != nil {
		w.fail(n, err)
	} else {
		w.written += w.held
	}
	w.buf, w.held = w.buf[:0], 0
}

// fail ends the writing of frames after an error. The file has taken n bytes of the buffer. It
// keeps those blocks that leave room for its end, so that it ends like a file that has reached
// its limit.
func (w *writer) fail(n int, err error) {
	kept, frames := 0, uint64(0)
	for n-kept >= 8 {
		block := int(le.Uint32(w.buf[kept+4:]))
		if kept+block+statisticsBytes > n {
			break
		}
		if le.Uint32(w.buf[kept:]) == blockPacket {
			frames++
		}
		kept += block
	}
	w.size += int64(kept - len(w.buf))
	if n > kept {
		file, ok := w.to.(interface{ Truncate(size int64) error })
		w.torn = !ok || file.Truncate(w.size) != nil
	}
	w.written += frames
	w.lost.Add(w.held - frames)
	if w.err == nil {
		w.err = err
		say := w.say
		if w.failed != nil {
			say = w.failed
		}
		say(fmt.Sprintf("%v: the file has %d frames, and no more are written", err, w.written))
	}
}

func (w *writer) say(text string) {
	if w.log != nil {
		w.log(text)
	}
}

func (w *writer) time(t clock.Time) time.Time { return w.base.Add(time.Duration(t)) }

// finish writes the end of the file and returns the first error of all.
func (w *writer) finish(missed, unkept uint64) error {
	beyond, lost := w.beyond.Load(), w.lost.Load()
	absent := missed + beyond + lost
	if !w.torn {
		w.buf = appendStatistics(w.buf, w.last, w.written+absent, absent)
		w.size += int64(len(w.buf))
		w.flush()
	}
	if c, ok := w.to.(io.Closer); ok {
		if err := c.Close(); w.err == nil {
			w.err = err
		}
	}
	if unkept += w.keyless; unkept > 0 {
		w.say(fmt.Sprintf("%d keys are not in the file, and their frames cannot be decrypted", unkept))
	}
	w.say(fmt.Sprintf("%d frames are in the file; %d are not, of which %d came when writing had fallen behind, "+
		"%d were beyond the limit of %d bytes, and %d failed to be written",
		w.written, absent, missed, beyond, w.limit, lost))
	return w.err
}
