package capture

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// frame is what is known of a recorded frame.
type frame struct {
	at        clock.Time
	from, to  link.Addr
	outbound  bool
	length    int // bytes
	off, kept int // of these, so many are in the chunk
}

// chunk is a number of recorded frames: what the recorder and the writer exchange.
type chunk struct {
	bytes  []byte
	frames []frame
}

const (
	chunkBytes  = 256 << 10 // a few of the largest frames
	chunkFrames = 2048      // frames of 128 bytes fill both
	oldAge      = 100 * time.Millisecond
)

// chunkCost is what a chunk counts against Config.Buffer, give or take its list of frames.
const chunkCost = chunkBytes

// The largest frame fits a chunk.
var _ [chunkBytes - limits.MaxFrame]struct{}

// recorder is the engine's half: it fills chunks and hands them to the writer.
type recorder struct {
	out     *writer
	current *chunk // being filled; nil if there is none
	made    int    // chunks that exist
	most    int    // chunks that may exist
	snap    int    // bytes of a frame that are kept
	missed  uint64 // frames for which there was no chunk
	empty   chan *chunk
	full    chan *chunk // nil if writing is inline
	ended   chan struct{}
}

func (r *recorder) start(out *writer, cfg Config) {
	r.out, r.snap = out, cfg.Snap
	r.most = max(cfg.Buffer/chunkCost, 2)
	r.empty = make(chan *chunk, r.most)
	if cfg.Inline {
		return
	}
	r.full = make(chan *chunk, r.most)
	r.ended = make(chan struct{})
	go r.write()
}

// write is the writer's goroutine.
func (r *recorder) write() {
	defer close(r.ended)
	for c := range r.full {
		r.out.write(c)
		r.empty <- c // has room for all there are
	}
}

// record copies a frame, or its beginning.
func (r *recorder) record(f frame, b []byte) {
	f.length = len(b)
	b = b[:min(len(b), r.snap)]
	if c := r.current; c != nil && (len(c.bytes)+len(b) > chunkBytes || len(c.frames) == chunkFrames) {
		r.handOver()
	}
	if r.current == nil && !r.renew() {
		r.missed++
		return
	}
	c := r.current
	f.off, f.kept = len(c.bytes), len(b)
	c.bytes = append(c.bytes, b...)
	c.frames = append(c.frames, f)
}

// renew finds an empty chunk. It is false if all of them wait to be written.
func (r *recorder) renew() bool {
	select {
	case r.current = <-r.empty:
		return true
	default:
	}
	if r.made == r.most {
		return false
	}
	r.made++
	r.current = &chunk{bytes: make([]byte, 0, chunkBytes), frames: make([]frame, 0, chunkFrames)}
	return true
}

// handOver gives the current chunk to the writer.
func (r *recorder) handOver() {
	c := r.current
	if c == nil {
		return
	}
	if r.full == nil {
		r.out.write(c) // and go on with the same chunk
		return
	}
	r.current = nil
	r.full <- c // has room for all there are
}

// tick hands over what is old, and says when the rest will be.
func (r *recorder) tick(now clock.Time) (next clock.Time) {
	if r.current == nil || len(r.current.frames) == 0 {
		return clock.Never
	}
	due := r.current.frames[0].at.Add(oldAge)
	if r.full != nil && now < due {
		return due
	}
	r.handOver()
	return clock.Never
}

// finish writes what is left and returns the first error.
func (r *recorder) finish() error {
	r.handOver()
	if r.full != nil {
		close(r.full)
		<-r.ended
	}
	return r.out.finish(r.missed)
}
