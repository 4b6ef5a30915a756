package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/idle"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/registry"
)

// serve answers every request by f, until the test ends.
func serve(t *testing.T, f func(c *Client, r *Request) error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nic.sock")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					r, err := c.Receive()
					if err != nil {
						return
					}
					if f(c, r) != nil {
						return
					}
				}
			}()
		}
	}()
	return path
}

func dial(t *testing.T, path string) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func memfd(t *testing.T, size int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestNoDaemonIsSaidWithTheSocketAndTheRemedy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.sock")
	_, err := Dial(t.Context(), path)
	if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "weft nic") {
		t.Errorf("Dial = %v", err)
	}
}

func TestASecondListenerIsRefusedByNameAndAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nic.sock")
	l, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Listen(path, 0o600)
	if !errors.Is(err, ErrSocketTaken) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second Listen = %v, want the id of the process that has the socket", err)
	}
	l.l.Close() // as a killed daemon leaves it: the file is there, the lock is free
	l.lock.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal("the test wants a stale socket:", err)
	}
	l, err = Listen(path, 0o600)
	if err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	l.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Close left the socket: %v", err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, 0o600); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("Listen over a file = %v", err)
	}
}

func TestASocketMayHaveALongPath(t *testing.T) {
	tmp := t.TempDir()
	for n := range 300 { // among them all lengths around the longest in an address
		path := tmp + strings.Repeat("/", 1+n%2) + strings.Repeat("d/", n/2) + "nic.sock"
		if _, err := Dial(t.Context(), path); !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), path) {
			t.Fatalf("%d bytes, before a daemon listens: %v", len(path), err)
		}
		l, err := Listen(path, 0o600)
		if err != nil {
			t.Fatalf("%d bytes: %v", len(path), err)
		}
		c, err := Dial(t.Context(), path)
		if err != nil {
			t.Fatalf("%d bytes: %v", len(path), err)
		}
		if err := errors.Join(c.Close(), l.Close()); err != nil {
			t.Errorf("%d bytes: %v", len(path), err)
		}
	}
}

// A daemon makes its socket under another name and then moves it. Go's errors contain the first
// name.
func TestAnErrorOfALostClientHasNoNameThatTheSocketNoLongerHas(t *testing.T) {
	left, errs := make(chan struct{}), make(chan error, 2)
	path := serve(t, func(c *Client, _ *Request) error {
		<-left
		errs <- c.Reply(&Reply{})
		c.Close()
		_, err := c.Receive()
		errs <- err
		return io.EOF
	})
	c := dial(t, path)
	if err := c.p.send(&Request{Version: Version, Op: OpNodes}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	close(left)
	for _, what := range []string{"a reply", "a receive"} {
		select {
		case err := <-errs:
			if err == nil || strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v; expected an error without a path", what, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not end", what)
		}
	}
}

func TestErrorsKeepTheirMeaningAcrossTheSocket(t *testing.T) {
	path := serve(t, func(c *Client, r *Request) error {
		return c.Refuse(fmt.Errorf("%w: %s is taken by slot 3", ErrNameTaken, r.Attach.Name))
	})
	_, err := dial(t, path).Attach(t.Context(), "app/1", nil)
	if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), "app/1 is taken by slot 3") {
		t.Errorf("Attach = %v", err)
	}
}

func TestListsOfAnyLengthArriveWhole(t *testing.T) {
	for _, n := range []int{0, 1, 2, 200, 1000} {
		all := make([]Name, n)
		for i := range all {
			all[i] = Name{Name: fmt.Sprintf("%s/%d", strings.Repeat("x", 24), 1<<32-1-i), NIC: 1<<64 - 1 - registry.NICID(i), Slot: 4095, Generation: 1<<32 - 1}
		}
		path := serve(t, func(c *Client, r *Request) error {
			page, next := Page(all, r.From)
			return c.Reply(&Reply{Names: page, Next: next})
		})
		got, err := dial(t, path).Names(t.Context())
		if err != nil || len(got) != n {
			t.Fatalf("%d of %d names, %v", len(got), n, err)
		}
		for i := range got {
			if got[i] != all[i] {
				t.Fatalf("name %d is %v, want %v", i, got[i], all[i])
			}
		}
	}
}

// widest returns a process with counts of the greatest length, and refusals of every kind.
func widest(i int) Process {
	p := Process{Name: fmt.Sprintf("%s/%d", strings.Repeat("x", 24), 1<<32-1-i), Slot: 4095, Generation: 1<<32 - 1, Refused: map[string]uint64{}}
	v := reflect.ValueOf(&p).Elem()
	for f := range v.NumField() {
		switch f := v.Field(f); {
		case f.CanInt():
			f.SetInt(math.MinInt64)
		case f.CanUint() && f.Kind() == reflect.Uint64:
			f.SetUint(math.MaxUint64)
		}
	}
	for kind := range 40 { // there are fewer, with shorter names
		p.Refused[fmt.Sprintf("%024d", kind)] = math.MaxUint64
	}
	return p
}

func TestTheWidestEntriesFitIntoReplies(t *testing.T) {
	all := make([]Process, 400)
	for i := range all {
		all[i] = widest(i)
	}
	var pages atomic.Int64
	path := serve(t, func(c *Client, r *Request) error {
		page, next := Page(all, r.From)
		pages.Add(1)
		return c.Reply(&Reply{Processes: page, Next: next})
	})
	got, err := dial(t, path).Processes(t.Context())
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%d of %d processes, %v", len(got), len(all), err)
	}
	if row, err := json.Marshal(all[0]); err != nil || int(pages.Load()) < len(all)*len(row)/ListBytes {
		t.Errorf("%d pages for %d entries of %d bytes, %v", pages.Load(), len(all), len(row), err)
	}
}

func TestACallEndsWithItsContextAndBreaksTheConnection(t *testing.T) {
	path := serve(t, func(*Client, *Request) error { return nil }) // never answers
	c := dial(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call = %v", err)
	}
	if _, err := c.Nodes(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the next call = %v; want the reason why the connection is unusable", err)
	}
}

func TestAQuestionThatIsGivenUpLeavesTheConnectionGood(t *testing.T) {
	answers := make(chan func(c *Client) error, 3)
	path := serve(t, func(c *Client, r *Request) error { return (<-answers)(c) })
	c := dial(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Names(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a question that is not answered: %v", err)
	}
	if _, err := c.Names(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a question whose context has ended: %v", err)
	}
	soon, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer end()
	if err := c.Shutdown(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request that the answer to the first holds up: %v", err)
	}
	fd := memfd(t, 4096)
	answers <- func(c *Client) error { return c.Reply(&Reply{Names: []Name{{Name: "late/0", NIC: 1}}}, fd) }
	answers <- func(c *Client) error { return c.Reply(&Reply{Names: []Name{{Name: "app/1", NIC: 1}}}) }
	if all, err := c.Names(t.Context()); err != nil || len(all) != 1 || all[0].Name != "app/1" {
		t.Errorf("the next question: %v, %v", all, err)
	}
	answers <- func(c *Client) error { return c.Reply(&Reply{}) }
	if err := c.Shutdown(t.Context()); err != nil {
		t.Errorf("a request behind it: %v", err)
	}
}

func TestADaemonThatDiesIsGone(t *testing.T) {
	path := serve(t, func(*Client, *Request) error { return io.EOF })
	if err := dial(t, path).Shutdown(t.Context()); !errors.Is(err, ErrNICGone) {
		t.Errorf("call = %v", err)
	}
}

func TestARequestWithDescriptorsIsRefusedAndNoneIsKept(t *testing.T) { // decision 10
	path := serve(t, func(c *Client, r *Request) error { return c.Reply(&Reply{}) })
	before := openFiles(t)
	c := dial(t, path)
	fd := memfd(t, 4096)
	if err := c.p.send(&Request{Version: Version, Op: OpShutdown}, fd, fd, fd); err != nil {
		t.Fatal(err)
	}
	b, _, err := c.p.receive()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeReply(b); !errors.Is(err, ErrBadRequest) {
		t.Errorf("the answer is %v", err)
	}
	if n := openFiles(t) - before; n > 3 { // both ends of the connection, and the memfd
		t.Errorf("%d descriptors more than before", n)
	}
}

// A process may send one descriptor, of lasting memory, and only with "register". Any other
// descriptor ends its connection, and none is kept.
func TestOnlyMemoryThatLastsComesWithARequest(t *testing.T) { // decision 10
	shrinks := memfd(t, 4096)
	lasts := memfd(t, 4096)
	if _, err := unix.FcntlInt(uintptr(lasts), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	for _, c := range []struct {
		what  string
		op    string
		given []int
		taken bool
	}{
		{"memory that lasts", OpRegister, []int{lasts}, true},
		{"memory that can be made shorter", OpRegister, []int{shrinks}, false},
		{"a file of a disk", OpRegister, []int{int(disk.Fd())}, false},
		{"nothing", OpRegister, nil, false},
		{"two", OpRegister, []int{lasts, lasts}, false},
		{"more than there is room for", OpRegister, []int{lasts, lasts, lasts, lasts}, false},
		{"memory with another request", OpLeave, []int{lasts}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			taken, ended := make(chan bool, 2), make(chan struct{})
			path := filepath.Join(t.TempDir(), "nic.sock")
			l, err := Listen(path, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				defer close(ended)
				k, err := l.Accept()
				if err != nil {
					return
				}
				defer k.Close()
				defer k.LetGo()
				k.TakeMemory()
				for {
					r, err := k.Receive()
					if err != nil {
						return
					}
					var st unix.Stat_t
					taken <- r.Op == OpRegister && unix.Fstat(r.Given.FD, &st) == nil && st.Size == 4096
					_ = k.Reply(&Reply{Region: &Region{ID: 1}})
					k.LetGo()
				}
			}()
			before := openFiles(t)
			conn := dial(t, path)
			err = conn.p.send(&Request{Version: Version, Op: c.op, Given: &Register{Bytes: 4096}}, c.given...)
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := conn.p.receive()
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeReply(b)
			if c.taken && (err != nil || !<-taken) || !c.taken && (!errors.Is(err, ErrBadRequest) || len(taken) > 0) {
				t.Errorf("the answer is %v; the request was taken: %v", err, c.taken)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			<-ended
			if n := openFiles(t) - before; n > 0 {
				t.Errorf("%d descriptors more than before", n)
			}
		})
	}
}

func TestARequestThatIsTooLongIsRefused(t *testing.T) {
	path := serve(t, func(c *Client, r *Request) error { return c.Reply(&Reply{}) })
	c := dial(t, path)
	if _, err := c.c.Write(bytes.Repeat([]byte(" "), MaxRequest+1)); err != nil {
		t.Fatal(err)
	}
	b, _, err := c.p.receive()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeReply(b); !errors.Is(err, ErrBadRequest) {
		t.Errorf("the answer is %v", err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(l)
}

func TestPeerCredentialsAreTheKernels(t *testing.T) {
	got := make(chan Peer, 1)
	path := serve(t, func(c *Client, r *Request) error { got <- c.Peer; return c.Reply(&Reply{}) })
	if err := dial(t, path).Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := <-got; p.PID != os.Getpid() || p.UID != os.Getuid() {
		t.Errorf("peer = %+v", p)
	}
}

// words stands for the words of the VNI of an attachment whose daemon is the test.
type words struct{ listening, sleeping atomic.Bool }

func attachTest(t *testing.T) (a *Attachment, kick, wake int, stop func()) {
	t.Helper()
	rw, ro := memfd(t, 8192), memfd(t, 4096)
	kick, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	path := serve(t, func(c *Client, r *Request) error {
		return c.Reply(&Reply{Attached: &Attached{NIC: 7, Slot: 3, Generation: 1}}, rw, ro, kick, pair[1])
	})
	a, err = dial(t, path).Attach(t.Context(), "app/3", nil)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(pair[1])
	t.Cleanup(func() { a.Close(); a.Unmap(); unix.Close(kick) })
	return a, kick, pair[0], func() { unix.Close(pair[0]) }
}

func TestAnAttachedProcessHasItsMemoryAndCannotWriteTheNICs(t *testing.T) {
	a, _, _, stop := attachTest(t)
	defer stop()
	if a.NIC != 7 || a.Slot != 3 || len(a.RW) != 8192 || len(a.RO) != 4096 {
		t.Errorf("attached %+v with %d and %d bytes", a.Attached, len(a.RW), len(a.RO))
	}
	a.RW[0] = 1
}

func TestAnAttachThatCannotMapItsMemoryKeepsNothing(t *testing.T) {
	rw, empty := memfd(t, 8192), memfd(t, 0) // empty memory cannot be mapped
	path := serve(t, func(c *Client, r *Request) error {
		if r.Op != OpAttach {
			return c.Reply(&Reply{})
		}
		kick, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return err
		}
		defer unix.Close(kick)
		return c.Reply(&Reply{Attached: &Attached{}}, rw, empty, kick, kick)
	})
	events := func() (n int) {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range all {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); to == "anon_inode:[eventfd]" {
				n++
			}
		}
		return n
	}
	before := events()
	if _, err := dial(t, path).Attach(t.Context(), "app/3", nil); err == nil || !strings.Contains(err.Error(), "map 0 bytes") {
		t.Fatalf("attach = %v", err)
	}
	// the other side has its own for a moment
	for deadline := time.Now().Add(time.Minute); events() != before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d eventfds are open; %d were", events(), before)
		}
	}
}

func TestAParkedProcessIsWokenByAByteAndNoWakeUpIsLost(t *testing.T) {
	a, _, wake, stop := attachTest(t)
	defer stop()
	var w words
	waiter := a.Waiter(Hooks{Listening: w.listening.Load, Sleeping: w.sleeping.Store})
	for i := range 200 {
		var done atomic.Bool
		go func() {
			// While it spins, yields, sleeps.
			time.Sleep(time.Duration(i%8) * 100 * time.Microsecond)
			done.Store(true)
			if w.sleeping.Load() {
				unix.SendmsgN(wake, []byte{1}, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := waiter.Wait(ctx, done.Load); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		cancel()
	}
}

func TestTheDeathOfTheDaemonEndsEveryWait(t *testing.T) {
	a, _, _, stop := attachTest(t)
	var w words
	waiter := a.Waiter(Hooks{Listening: w.listening.Load, Sleeping: w.sleeping.Store})
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- waiter.Wait(context.Background(), func() bool { return false }) }()
	}
	time.Sleep(2 * time.Millisecond)
	stop()
	for range cap(errs) {
		select {
		case err := <-errs:
			if !errors.Is(err, ErrNICGone) {
				t.Errorf("Wait = %v, want ErrNICGone", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a wait hangs")
		}
	}
	if err := waiter.Wait(t.Context(), func() bool { return false }); !errors.Is(err, ErrNICGone) {
		t.Errorf("a later Wait = %v", err)
	}
	if err := waiter.Wait(t.Context(), func() bool { return true }); err != nil {
		t.Errorf("what was done before still counts; Wait = %v", err)
	}
}

func TestCloseEndsEveryWaitOfAnAttachedProcess(t *testing.T) {
	a, _, _, stop := attachTest(t)
	defer stop()
	waiter := a.Waiter(Hooks{Listening: func() bool { return true }})
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- waiter.Wait(context.Background(), func() bool { return false }) }()
	}
	time.Sleep(2 * time.Millisecond)
	a.Close()
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("Wait = %v, want ErrClosed", err)
		}
	}
}

func TestAProcessSaysWhereItWaitsAwake(t *testing.T) {
	if idle.Processor() < 0 {
		t.Skip("this system has no cheap way to say which processor a process waits at")
	}
	a, _, _, stop := attachTest(t)
	defer stop()
	var w words
	at, told, said := -1, 0, false
	says := func(p int) { at, told, said = p, told+1, said || p >= 0 }
	waiter := a.Waiter(Hooks{Listening: w.listening.Load, Sleeping: w.sleeping.Store, WaitsAt: says, Awake: time.Hour})
	looks := 0
	ready := func() bool { looks++; return looks >= 3 }
	for round := range 10 {
		looks, said = 0, false
		if err := waiter.Wait(t.Context(), ready); err != nil {
			t.Fatal(err)
		}
		if !said || at != -1 {
			t.Fatalf("round %d: said where it waits: %v; and that it still does at %d", round, said, at)
		}
		told = 0
		if err := waiter.Wait(t.Context(), func() bool { return true }); err != nil || told > 0 {
			t.Fatalf("round %d: told %d times where it waits for what has come, %v", round, told, err)
		}
	}
}

// The steady state of the data path allocates nothing (decision 16).
func TestAnAttachedProcessWaitsWithoutAllocating(t *testing.T) {
	a, _, _, stop := attachTest(t)
	defer stop()
	var w words
	// It never parks, since nothing would wake it: its own looks find the completion. The third
	// look is the last before it parks, if a thread computes on its core.
	waiter := a.Waiter(Hooks{Listening: w.listening.Load, Sleeping: w.sleeping.Store, Awake: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	ready := func() bool { looks++; return looks >= 3 }
	wait := func() {
		looks = 0
		waiter.Kick()
		if err := waiter.Wait(ctx, ready); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, wait); n != 0 {
		t.Errorf("%v allocations a wait", n)
	}
}

func TestKickRingsOnlyWhenNobodyListens(t *testing.T) {
	a, kick, _, stop := attachTest(t)
	defer stop()
	var w words
	waiter := a.Waiter(Hooks{Listening: w.listening.Load, Sleeping: w.sleeping.Store})
	var buf [8]byte
	w.listening.Store(true)
	waiter.Kick()
	if _, err := unix.Read(kick, buf[:]); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("rang although the NIC listens: %v", err)
	}
	w.listening.Store(false)
	waiter.Kick()
	if _, err := unix.Read(kick, buf[:]); err != nil {
		t.Errorf("did not ring: %v", err)
	}
}

func TestClosingTheListenerEndsAccept(t *testing.T) {
	l, err := Listen(filepath.Join(t.TempDir(), "nic.sock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := l.Accept(); done <- err }()
	l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept = %v", err)
	}
}
