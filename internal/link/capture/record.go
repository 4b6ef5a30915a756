package capture

import (
	"sync"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/seal"
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
	keys   []byte // lines, of the keys that sessions began to use meanwhile
}

const (
	chunkBytes  = 256 << 10 // a few of the largest frames
	chunkFrames = 2048      // frames of 128 bytes fill both
	chunkKeys   = 64 << 10  // bytes of lines: some 500 keys
	oldAge      = 100 * time.Millisecond
)

// chunkCost is what a chunk counts against Config.Buffer, give or take its list of frames.
const chunkCost = chunkBytes

// The largest frame fits a chunk.
var _ [chunkBytes - limits.MaxFrame]struct{}

// recorder is the engine's half: it fills chunks and hands them to the writer. A chunk that is not full after a while is handed over by a timer,
// since the engine may sleep by then.
type recorder struct {
	out     *writer
	mu      sync.Mutex  // guards current; the timer holds it for no longer than a send to full takes
	current *chunk      // being filled; nil if there is none
	old     *time.Timer // of current; nil if writing is inline
	made    int         // chunks that exist
	most    int         // chunks that may exist
	snap    int         // bytes of a frame that are kept
	missed  uint64      // frames for which there was no chunk
	unkept  uint64      // keys for which there was none
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

// key notes a key. The writer puts it into the file before the frames of the same chunk.
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

// renew finds an empty chunk, which will be old some time. It is false if all of them wait to be written.
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

// handOver gives the current chunk, if there is one, to the writer. mu is held, but for writing inline.
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

// writeInline writes what is recorded, where that is not for a goroutine.
func (r *recorder) writeInline() {
	if r.full == nil {
		r.handOver()
	}
}

// finish writes what is left and returns the first error.
func (r *recorder) finish() error {
	r.mu.Lock()
	r.handOver() // the timer finds nothing from now on
	r.mu.Unlock()
	if r.full != nil {
		r.old.Stop()
		close(r.full)
		<-r.ended
	}
	return r.out.finish(r.missed, r.unkept)
}
