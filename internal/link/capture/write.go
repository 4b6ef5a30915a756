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
	limit   int64 // bytes of the file
	buf     []byte
	held    uint64 // frames in buf
	size    int64  // bytes of the file so far, those in buf included
	written uint64
	lost    atomic.Uint64 // recorded frames that were not written because of err,
	beyond  atomic.Uint64 // or because of the limit: from the first one on, all
	last    time.Time     // of the last frame
	err     error         // the first one; no frame is written afterwards
	keys    uint64        // in the file,
	keyless uint64        // and that it had no room for, or that could not be written
	torn    bool          // by err: the file ends within a block, and has no end
	log     func(text string)
	failed  func(text string) // in place of log when writing fails; may be nil
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

// write writes a chunk's frames and empties it.
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

// addKeys appends a block with keys to what is to be written, if the file has room for it and for
// its end.
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

// add appends a packet to what is to be written, if the file has room for it and for its end. The first one that has none is the last:
// a file with holes would say less.
func (w *writer) add(f *frame, kept []byte) {
	kept = kept[:min(len(kept), longest)]
	n := packetBytes(f.headers() + len(kept))
	if w.beyond.Load() > 0 || w.size+int64(n)+statisticsBytes > w.limit {
		if w.beyond.Add(1) == 1 {
			w.say(fmt.Sprintf("the file has reached its limit of %d bytes: it has %d frames, and no more are written", w.limit, w.written+w.held))
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

// flush writes what has been put together.
func (w *writer) flush() {
	if n, err := w.to.Write(w.buf); err != nil {
		w.fail(n, err)
	} else {
		w.written += w.held
	}
	w.buf, w.held = w.buf[:0], 0
}

// fail ends the writing of frames after an error: the file has taken n bytes of buf. Of these it keeps the blocks that leave room for its end, so
// that it ends as one that has reached its limit does.
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

// finish ends the file and returns the first error of all.
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
	w.say(fmt.Sprintf("%d frames are in the file; %d are not, of which %d came when writing had fallen behind, %d were beyond the limit of %d bytes, and %d failed to be written",
		w.written, absent, missed, beyond, w.limit, lost))
	return w.err
}
