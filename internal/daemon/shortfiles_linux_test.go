package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
)

// withDescriptors calls f while the process may open only that many more descriptors.
func withDescriptors(t *testing.T, more int, f func()) {
	t.Helper()
	var was unix.Rlimit
	var held []int
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	highest := 0 // the highest open descriptor: all lower ones are filled
	for range allDescriptors(t) + 64 {
		fd, err := unix.Dup(2)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, fd)
		highest = max(highest, fd)
	}
	for range more {
		unix.Close(held[len(held)-1])
		held = held[:len(held)-1]
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest) + 1, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	f()
}

// Each step of an attach and of a region takes descriptors. Whichever step fails, nothing is left
// of the earlier ones.
func TestWhateverStepLacksADescriptorLeavesNothing(t *testing.T) {
	b := newBench(t)
	client := &ctl.Client{Peer: ctl.Peer{PID: os.Getpid(), UID: os.Getuid()}}
	for what, c := range map[string]struct {
		begin func() (end func() error, err error)
	}{
		"a process of the usual size": {func() (func() error, error) { return b.attachAs(client, nil) }},
		"a process of another size":   {func() (func() error, error) { return b.attachAs(client, &ctl.Geometry{Contexts: 8}) }},
		"memory of a region": {func() (func() error, error) {
			m, err := b.session(0).newRegion(&ctl.Alloc{Bytes: 8192})
			if err != nil {
				return nil, err
			}
			return m.close, nil
		}},
		"a segment": {func() (func() error, error) {
			b.d.segments.making.Lock()
			defer b.d.segments.making.Unlock()
			if _, err := b.d.makeSegment(4, 64, os.Getuid()); err != nil {
				return nil, err
			}
			return func() error {
				b.d.segments.making.Lock()
				defer b.d.segments.making.Unlock()
				return b.d.dropSegment(4)
			}, nil
		}},
	} {
		failed := 0
		for more := 0; ; more++ {
			before, open := b.d.held(), allDescriptors(t)
			var end func() error
			var err error
			withDescriptors(t, more, func() { end, err = c.begin() })
			if err == nil {
				if err := end(); err != nil {
					t.Errorf("%s: its end: %v", what, err)
				}
			} else if failed++; !errors.Is(err, ctl.ErrNoMemory) {
				t.Errorf("%s with %d descriptors: %v; expected %v", what, more, err, ctl.ErrNoMemory)
			}
			if after := b.d.held(); after != before {
				t.Errorf("%s with %d descriptors: the daemon has %s; before it had %s", what, more, after, before)
			}
			eventually(t, "no descriptor more than before", func() bool { return allDescriptors(t) <= open })
			if err == nil {
				break
			}
			if more > 20 {
				t.Fatalf("%s with %d descriptors: %v", what, more, err)
			}
		}
		if failed == 0 {
			t.Errorf("%s needs no descriptor", what)
		}
	}
}

// attachAs attaches a process without a connection.
func (b *bench) attachAs(client *ctl.Client, g *ctl.Geometry) (end func() error, err error) {
	s, err := b.d.attach(client, &ctl.Attach{Name: "c/0", Geometry: g})
	if err != nil {
		return nil, err
	}
	return s.end, nil
}

// A client that comes while the daemon lacks descriptors waits, and is served when there are some.
func TestADaemonThatLackedDescriptorsAcceptsAgain(t *testing.T) {
	log := &lines{}
	d, err := New(Config{Socket: filepath.Join(t.TempDir(), "nic.sock"), Listen: "127.0.0.1:0"}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	eventually(t, "its start", func() bool { return log.with("NIC is up") > 0 })
	withDescriptors(t, 0, func() {
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: d.Socket()}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a client that is not accepted", func() bool { return log.with("client not accepted") > 0 })
	})
	asking, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	c, err := ctl.Dial(asking, d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Links(asking); err != nil {
		t.Errorf("the next client: %v", err)
	}
}
