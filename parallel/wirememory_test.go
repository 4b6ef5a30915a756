package parallel

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// A memoryNet connects the ranks of a test in memory.
type memoryNet struct {
	mu     sync.Mutex
	cond   *sync.Cond
	queues [][][]byte
	dead   []bool // ranks that have left alone
}

// memoryWire is the wire of a rank of a memoryNet.
type memoryWire struct {
	net  *memoryNet
	me   int
	held []byte
	left bool
}

func newMemoryNet(n int) *memoryNet {
	net := &memoryNet{queues: make([][][]byte, n), dead: make([]bool, n)}
	net.cond = sync.NewCond(&net.mu)
	return net
}

func (w *memoryWire) rank() int { return w.me }
func (w *memoryWire) size() int { return len(w.net.queues) }

func (w *memoryWire) post(_ context.Context, to int, head *[headerLen]byte, data []byte) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	b := append(append(make([]byte, 0, headerLen+len(data)), head[:]...), data...)
	w.net.queues[to] = append(w.net.queues[to], b)
	w.net.cond.Broadcast()
	return nil
}

func (w *memoryWire) next(ctx context.Context, last bool) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() {
		w.net.mu.Lock()
		defer w.net.mu.Unlock()
		w.net.cond.Broadcast()
	})
	defer stop()
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	for {
		for r, dead := range w.net.dead {
			if dead && !last {
				return nil, &RankError{r, "", &told{ErrRankGone.Error(), ErrRankGone}}
			}
		}
		if q := w.net.queues[w.me]; len(q) > 0 {
			w.held, w.net.queues[w.me] = q[0], q[1:]
			return w.held, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.net.cond.Wait()
	}
}

func (w *memoryWire) flush(context.Context, uint64) error { return nil }

func (w *memoryWire) abandon(_ context.Context, orderly bool) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if !orderly && !w.left {
		w.left = true
		w.net.dead[w.me] = true
		w.net.cond.Broadcast()
	}
	return nil
}

func (w *memoryWire) leave(ctx context.Context, orderly bool) error { return w.abandon(ctx, orderly) }

func (w *memoryWire) shrink(context.Context) (wire, uint32, error) {
	return nil, 0, errors.New("a memoryWire cannot shrink")
}

// each runs a function on n ranks, and returns the error of each.
func each(t *testing.T, n int, main func(m *Machine) error) []error {
	t.Helper()
	net, errs := newMemoryNet(n), make([]error, n)
	var all sync.WaitGroup
	for r := range n {
		all.Go(func() {
			m := newMachine(&memoryWire{net: net, me: r}, nil, nil, 0)
			if errs[r] = tried(main, m); errs[r] == nil {
				errs[r] = m.Close()
			} else {
				m.w.abandon(context.Background(), false) // in the same way as a process that ends
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatalf("%d ranks hang", n)
	}
	return errs
}

// onRanks runs a function on n ranks, and fails the test if it fails on one of them.
func onRanks(t *testing.T, n int, main func(m *Machine) error) {
	t.Helper()
	for r, err := range each(t, n, main) {
		// The error of the first rank that failed by itself.
		if err != nil && (r == n-1 || !errors.Is(err, ErrRankGone)) {
			t.Fatalf("rank %d of %d: %v", r, n, err)
		}
	}
}

// on makes a variable and fills it.
func on[T any](s *Shape, f func(pos []int) T) (*Var[T], error) {
	v, err := New[T](s)
	if err == nil && f != nil {
		Fill(v, f)
	}
	return v, err
}

// unexpected is the value with which must panics.
type unexpected struct{ err error }

// must returns x. If err is not nil, it ends the function of the rank with this error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(unexpected{err})
	}
	return x
}

// tried calls the function of a rank, and returns its error or that of must.
func tried(main func(m *Machine) error, m *Machine) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case unexpected:
			err = p.err
		default:
			panic(p)
		}
	}()
	return main(m)
}
