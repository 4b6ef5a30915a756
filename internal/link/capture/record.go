package capture

import (
	"sync"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/seal"
)

// frame describes a recorded frame.
type frame struct {
	at        clock.Time
	from, to  link.Addr
	outbound  bool
	length    int // in bytes
	off, kept int // the chunk holds kept bytes of them, at off
}

// chunk is a number of recorded frames. Recorder and writer exchange chunks.
type chunk struct {
	bytes  []byte
	frames []frame
	keys   []byte // lines, for the keys that sessions began to use meanwhile
}

const (
	chunkBytes  = 256 << 10 // holds several of the largest frames
	chunkFrames = 2048      // frames of 128 bytes fill bytes and frames at once
	chunkKeys   = 64 << 10  // bytes of lines: about 500 keys
	oldAge      = 100 * time.Millisecond
)

// chunkCost is the memory of a chunk as counted against Config.Buffer. It leaves out the list of
// frames.
const chunkCost = chunkBytes

// The largest frame fits into a chunk.
var _ [chunkBytes - limits.MaxFrame]struct{}

// recorder is the engine's half. It fills chunks and hands them to the writer. A timer hands
// over a chunk that is not full after a while, since the engine may sleep by then.
type recorder struct {
	out *writer
	// mu guards current. The timer holds it only for a send to full.
	mu      sync.Mutex
	current *chunk      // the chunk being filled, or nil
	old     *time.Timer // timer for the age of current; nil if writing is inline
	made    int         // number of chunks made
	most    int         // largest number of chunks
	snap    int         // bytes of a frame to keep
	missed  uint64      // frames without a chunk
	unkept  uint64      // keys without a chunk
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
	r.old = time.AfterFunc(oldAge, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.handOver()
	})
	go r.write()
}

// write runs in the writer's goroutine.
func (r *recorder) write() {
	defer close(r.ended)
	for c := range r.full {
		r.out.write(c)
		r.empty <- c // has room for all chunks
	}
}

// record copies a frame, or its beginning.
func (r *recorder) record(f frame, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// key records a key. The writer puts it into the file before the frames of the same chunk.
func (r *recorder) key(k seal.KeyLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.current; c != nil && len(c.keys)+keyLineMost > chunkKeys {
		r.handOver()
	}
	if r.current == nil && !r.renew() {
		r.unkept++
		return
	}
	r.current.keys = appendKey(r.current.keys, &k)
}

// renew gets an empty chunk and starts its timer. It returns false if all chunks wait to be
// written.
func (r *recorder) renew() bool {
	select {
	case r.current = <-r.empty:
	default:
		if r.made == r.most {
			return false
		}
		r.made++
		r.current = &chunk{bytes: make([]byte, 0, chunkBytes), frames: make([]frame, 0, chunkFrames)}
	}
	if r.old != nil {
		r.old.Reset(oldAge)
	}
	return true
}

// handOver gives the current chunk, if any, to the writer. The caller holds mu, unless writing
// is inline.
func (r *recorder) handOver() {
	c := r.current
	if c == nil {
		return
	}
	if r.full == nil {
		r.out.write(c) // the same chunk is used again
		return
	}
	r.current = nil
	r.full <- c // has room for all chunks
}

// writeInline writes the recorded frames if there is no goroutine for it.
func (r *recorder) writeInline() {
	if r.full == nil {
		r.handOver()
	}
}

// finish writes the remaining frames and returns the first error.
func (r *recorder) finish() error {
	r.mu.Lock()
	r.handOver() // from now on the timer finds no chunk
	r.mu.Unlock()
	if r.full != nil {
		r.old.Stop()
		close(r.full)
		<-r.ended
	}
	return r.out.finish(r.missed, r.unkept)
}
