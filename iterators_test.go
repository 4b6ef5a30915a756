package weft_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weftnet/weft"
)

func TestInboxAllGoesOnAfterATruncatedMessageAndEndsWithItsContext(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	const size = 256 << 10 // the minimum that an Inbox keeps
	in, err := b.Inbox(a.Name(), 1, size)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	sizes := []int{10, size + 1, 20, size + 2, 30}
	sent := make(chan error, 1)
	go func() {
		var errs []error
		for i, n := range sizes {
			errs = append(errs, a.Send(ctx, b.Name(), 1, pattern(uint64(i), n)))
		}
		sent <- errors.Join(errs...)
	}()
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var lengths, fulls []int
	var last error
	ended := 0
	for m, err := range in.All(within) {
		switch {
		case errors.Is(err, context.Canceled):
			last = err
			ended++
			continue // the iterator still ends
		case err != nil && (!errors.Is(err, weft.ErrTruncated) || m.Full <= size):
			t.Errorf("a message of %d bytes: %v", m.Full, err)
		case err == nil && m.Full > size:
			t.Errorf("a message of %d bytes is not truncated", m.Full)
		}
		if want := pattern(uint64(len(fulls)), m.Full)[:m.Len]; !slices.Equal(m.Data, want) || m.From != a.Name() {
			t.Errorf("message %d from %v holds other bytes", len(fulls), m.From)
		}
		lengths, fulls = append(lengths, m.Len), append(fulls, m.Full)
		if len(fulls) == len(sizes) {
			cancel()
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if !slices.Equal(fulls, sizes) || !slices.Equal(lengths, []int{10, size, 20, size, 30}) {
		t.Errorf("messages of %v bytes come as %v of %v; expected %v", lengths, lengths, fulls, sizes)
	}
	if ended != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("the sequence ends %d times with %v; expected once with %v", ended, last, context.Canceled)
	}
	if err := a.Send(ctx, b.Name(), 1, []byte("last")); err != nil {
		t.Fatal(err)
	}
	for m, err := range in.All(ctx) { // a loop may end the iteration early
		if err != nil || string(m.Data) != "last" {
			t.Errorf("a later sequence returns %q, %v", m.Data, err)
		}
		break
	}
}

func TestWatcherAllEndsWithErrClosedAfterClose(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	if err := a.Peer(b.Name()).SendDelivered(ctx, 1, nil); err != nil {
		t.Fatal(err)
	}
	for what, end := range map[string]func(w *weft.Watcher) error{
		"the Watcher":     func(w *weft.Watcher) error { w.Close(); return nil },
		"both once more":  func(w *weft.Watcher) error { w.Close(); w.Close(); return nil },
		"after the event": func(w *weft.Watcher) error { return b.Close() },
	} {
		w := a.Watch(b.Address())
		ended := make(chan error, 1)
		go func() {
			var last error
			for e, err := range w.All(ctx) {
				if last = err; err == nil && (e.Addr.NIC != b.Address().NIC || e.String() == "") {
					last = errors.New("another event")
				}
				if err == nil {
					w.Close()
				}
			}
			ended <- last
		}()
		if err := end(w); err != nil {
			t.Fatal(err)
		}
		var op *weft.OpError
		if err := <-ended; !errors.Is(err, weft.ErrClosed) || !errors.As(err, &op) {
			t.Errorf("Close of %s: the sequence ends with %v; expected %v", what, err, weft.ErrClosed)
		}
		for _, err := range w.All(ctx) {
			if !errors.Is(err, weft.ErrClosed) {
				t.Errorf("a sequence of a closed Watcher: %v; expected %v", err, weft.ErrClosed)
			}
		}
	}
	late, cancel := context.WithCancel(ctx)
	cancel()
	w := a.Watch()
	defer w.Close()
	n := 0
	for _, err := range w.All(late) {
		if n++; !errors.Is(err, context.Canceled) || n > 1 {
			t.Fatalf("a sequence with a context that has ended: %v", err)
		}
	}
}

// An embedded process makes no system call to reach its NIC.
func TestTheStatsOfAnEmbeddedProcessHaveNoKicks(t *testing.T) {
	for _, link := range []weft.Link{weft.NewSwitch().Link(), weft.UDP("127.0.0.1:0")} {
		ctx, a, b := pair(t, on(weft.Config{Link: link}))
		region, err := a.Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		exchange := exchanging(t, ctx, a, b, 100<<10)
		for range 20 {
			exchange()
			if err := b.Put(ctx, region.Handle(), 0, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []*weft.Process{a, b} {
			if s := p.Stats(); s.Kicks != 0 || s.Wakes != 0 {
				t.Errorf("%v on %v made %d kicks and %d wakes; expected none", p.Name(), link, s.Kicks, s.Wakes)
			}
		}
	}
}
