package memfile

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watchful is a device that fails if the context of an operation has ended.
type watchful struct{ *memory }

func (w watchful) ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return w.memory.ReadAtContext(ctx, b, offset)
}

func (w watchful) WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return w.memory.WriteAtContext(ctx, b, offset)
}

func (w watchful) Flush(ctx context.Context) error { return ctx.Err() }

func (w watchful) Discard(ctx context.Context, offset, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.memory.Discard(ctx, offset, n)
}

// The kernel withdraws a request if its program gets a signal. An operation that has begun
// continues. Otherwise the program would read an error although the device works.
func TestASignalToTheProgramEndsNoOperation(t *testing.T) {
	const size = 1 << 16
	f := &file{cfg: Config{
		Device: watchful{&memory{b: make([]byte, size)}},
		Full:   func(error) bool { return false },
		Log:    func(text string) { t.Errorf("it logs %q", text) },
	}}
	f.outage.init(time.Minute)
	defer f.outage.close()
	f.cfg.Timeout = time.Minute
	ctx, signal := context.WithCancel(t.Context())
	signal()
	if n, errno := f.Write(ctx, nil, []byte("four"), 8); n != 4 || errno != 0 {
		t.Errorf("a write: %d, %v; expected 4 bytes", n, errno)
	}
	read, errno := f.Read(ctx, nil, make([]byte, 4), 8)
	if got, _ := read.Bytes(nil); string(got) != "four" || errno != 0 {
		t.Errorf("a read: %q, %v; expected what was written", got, errno)
	}
	if errno := f.Fsync(ctx, nil, 0); errno != 0 {
		t.Errorf("an fsync: %v", errno)
	}
	if errno := f.Allocate(ctx, nil, 0, 4096, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE); errno != 0 {
		t.Errorf("a hole: %v", errno)
	}
}

// counting is a context that counts the functions that wait for its end.
type counting struct {
	context.Context
	waiting int
}

func (*counting) Done() <-chan struct{} { return make(chan struct{}) }

func (c *counting) AfterFunc(func()) (stop func() bool) {
	c.waiting++
	return func() bool { c.waiting--; return true }
}

// A mount may serve operations for years. An operation that has ended leaves nothing.
func TestAnOperationThatEndedIsForgotten(t *testing.T) {
	c := &counting{Context: context.Background()}
	o := outage{closing: c}
	for _, ok := range []bool{true, false} {
		ctx, _, done := o.begin(t.Context(), time.Minute)
		if c.waiting != 1 {
			t.Fatalf("%d functions wait for the end of the mount; expected one for each operation", c.waiting)
		}
		done(ok, false)
		if c.waiting != 0 || ctx.Err() == nil {
			t.Errorf("behind an operation %d functions wait for the end of the mount, and its context says %v",
				c.waiting, ctx.Err())
		}
	}
}
