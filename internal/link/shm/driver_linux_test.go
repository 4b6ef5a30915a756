package shm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
)

func listen(tb testing.TB, cfg Config) *Driver {
	tb.Helper()
	d, err := Listen(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

func TestDriver(t *testing.T) {
	for _, mtu := range []int{0, 1500, limits.MaxFrame} {
		linktest.Run(t, linktest.Suite{
			Make: func(tb testing.TB) (a, b link.Driver) {
				return listen(tb, Config{MTU: mtu}), listen(tb, Config{MTU: mtu})
			},
			Claims:  link.Properties{Reliable: true, Ordered: true, Checked: true, Whole: true},
			Bounded: true,
			Nobody:  Address(unique("nobody")),
		})
	}
}

func TestAnAddressIsWrittenAndReadBack(t *testing.T) {
	a := Address("worker/3")
	if b, err := Parse(String(a)); err != nil || b != a || !Is(b) {
		t.Errorf("%s is read back as %v, %v", String(a), b, err)
	}
	if b, err := Parse("shm:worker/3"); err != nil || b != a {
		t.Errorf("shm:worker/3 is %v, %v; expected %v", b, err, a)
	}
	for _, s := range []string{"", "shm", "shm:", "127.0.0.1:7", "shm:" + strings.Repeat("x", 65)} {
		if _, err := Parse(s); !errors.Is(err, ErrAddress) {
			t.Errorf("Parse(%q) = %v; expected ErrAddress", s, err)
		}
	}
}

func TestASecondDriverOfANameIsRefused(t *testing.T) {
	twice := unique("twice")
	listen(t, Config{Name: twice})
	d, err := Listen(Config{Name: twice})
	if !errors.Is(err, ErrAddressInUse) {
		t.Fatalf("a second driver: %v, %v; expected ErrAddressInUse", d, err)
	}
}

// unique returns a name that no other program on this host uses.
func unique(name string) string { return fmt.Sprintf("%s/%d", name, os.Getpid()) }

// readable reports whether a descriptor becomes readable soon.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 200)
	if err != nil && err != unix.EINTR {
		t.Fatal(err)
	}
	return n > 0
}

var epoch = time.Now()

func now() clock.Time { return clock.Time(time.Since(epoch)) }

func TestAFrameWakesWhoeverSleepsAndNobodyElse(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	var in linktest.Inbox
	linktest.Send(t, a, b.Addr(), []byte("connect"))
	linktest.Collect(t, b, &in, 1)

	linktest.Send(t, a, b.Addr(), []byte("awake"))
	if readable(t, b.Fd()) {
		t.Error("a frame for a driver that does not sleep has cost a wake-up")
	}
	if !b.Sleep() {
		t.Error("Sleep finds no frame, but there is one")
	}
	linktest.Collect(t, b, &in, 2)
	if b.Sleep() {
		t.Error("Sleep finds a frame, but all have been taken")
	}
	linktest.Send(t, a, b.Addr(), []byte("asleep"))
	if !readable(t, b.Fd()) {
		t.Fatal("a frame for a sleeping driver has not woken it")
	}
	b.Awake()
	linktest.Collect(t, b, &in, 3)
	if readable(t, b.Fd()) {
		t.Error("the descriptor is readable though the wake-up has been seen")
	}
}

// A process that is busy finds its NIC asleep with a wake-up before it, and looks at it each
// time. On a machine with other work that is once a message.
func TestAWakeUpThatIsLeftForTheSleeperAllocatesNothing(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	var in linktest.Inbox
	linktest.Send(t, a, b.Addr(), []byte("connect"))
	linktest.Collect(t, b, &in, 1)
	b.Sleep()
	linktest.Send(t, a, b.Addr(), []byte("wake"))
	if n := testing.AllocsPerRun(100, b.look); n != 0 {
		t.Errorf("a look at a wake-up makes %v allocations; expected none", n)
	}
	if !readable(t, b.Fd()) {
		t.Error("the looks took the wake-up from the one who sleeps")
	}
}

// Others may poll while the helper sleeps. It must still be woken by frames that arrive
// afterwards.
func TestAPollDoesNotEndTheSleep(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	var in linktest.Inbox
	b.Sleep()
	linktest.Send(t, a, b.Addr(), []byte("connect")) // this wakes, too
	linktest.Collect(t, b, &in, 1)
	if readable(t, b.Fd()) {
		t.Fatal("the descriptor is readable though the connection has been seen")
	}
	linktest.Send(t, a, b.Addr(), []byte("wake"))
	if !readable(t, b.Fd()) {
		t.Error("a frame that came after a poll has not woken the sleeper")
	}
}

// A poll looks at the sockets from time to time. It may find the byte that is to wake the
// sleeper before the sleeper does.
func TestAPollThatSeesTheWakeUpDoesNotEndTheSleep(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	var in linktest.Inbox
	linktest.Send(t, a, b.Addr(), []byte("connect"))
	linktest.Collect(t, b, &in, 1)
	b.Sleep()
	for i := range 3 {
		linktest.Send(t, a, b.Addr(), []byte("wake"))
		if !readable(t, b.Fd()) {
			t.Fatalf("frame %d, which came after a poll, has not woken the sleeper", i)
		}
		if b.Poll(b.looked.Add(lookAfter), &in); len(in.Frames) != i+2 {
			t.Fatalf("%d frames have come; expected %d", len(in.Frames), i+2)
		}
	}
	b.Awake()
	if readable(t, b.Fd()) {
		t.Error("the descriptor is readable though the wake-up has been seen")
	}
}

// When a ring is full, its sender checks whether the reader lives. Frames that others have sent
// meanwhile must be found by a poll, or wake the sleeper.
func TestAFullRingDoesNotEndTheSleep(t *testing.T) {
	a, b, c := listen(t, Config{}), listen(t, Config{}), listen(t, Config{})
	linktest.Send(t, a, b.Addr(), []byte("connect"))
	var in linktest.Inbox
	linktest.Collect(t, b, &in, 1)
	b.Sleep()
	linktest.Send(t, a, b.Addr(), []byte("wake"))
	for b.Reserve(c.Addr()) != nil {
		b.Commit(b.MTU())
	}
	if !readable(t, b.Fd()) {
		t.Error("a send that found no room has read the byte that was to wake the sleeper")
	}
	c.Close()
	if b.Reserve(c.Addr()) == nil {
		t.Error("a full ring whose reader has gone takes no more")
	}
}

func TestAConnectionWakesWhoeverSleeps(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	if b.Sleep() {
		t.Error("Sleep finds a frame where none was sent")
	}
	linktest.Send(t, a, b.Addr(), []byte("the first frame"))
	if !readable(t, b.Fd()) {
		t.Fatal("a new connection has not woken a sleeping driver")
	}
	var in linktest.Inbox
	linktest.Collect(t, b, &in, 1)
}

func TestWhatWasSentBeforeCloseStillArrives(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	for range 20 {
		linktest.Send(t, a, b.Addr(), []byte("last words"))
	}
	a.Close()
	var in linktest.Inbox
	linktest.Collect(t, b, &in, 20)
	pollUntil(t, b, "the ring of a closed driver is let go of", func() bool { return len(b.in) == 0 })
}

func TestAClosedReceiverIsFoundAgainWhenItIsBack(t *testing.T) {
	back := unique("back")
	a, b := listen(t, Config{}), listen(t, Config{Name: back})
	var in linktest.Inbox
	linktest.Send(t, a, b.Addr(), []byte("one"))
	linktest.Collect(t, b, &in, 1)
	b.Close()
	pollUntil(t, a, "its ring is given up", func() bool { return a.out[b.addr].dead })
	linktest.Send(t, a, Address(back), []byte("to nobody"))
	again := listen(t, Config{Name: back})
	time.Sleep(2 * retryAfter)
	in = linktest.Inbox{}
	a.Poll(now(), &in)
	linktest.Send(t, a, Address(back), []byte("two"))
	linktest.Collect(t, again, &in, 1)
	if string(in.Frames[0]) != "two" {
		t.Errorf("the new receiver got %q", in.Frames[0])
	}
}

// pollUntil polls d until so returns true.
func pollUntil(t *testing.T, d *Driver, what string, so func() bool) {
	t.Helper()
	var in linktest.Inbox
	for end := time.Now().Add(time.Minute); !so(); {
		d.Poll(now(), &in)
		if time.Now().After(end) {
			t.Fatalf("it does not come to be so that %s", what)
		}
	}
}

// A process is killed while it sends, several times. The frames that it had published arrive
// whole and in order, and its end is noticed.
func TestAKilledSenderLeavesWholeFrames(t *testing.T) {
	if os.Getenv("WEFT_SHM_SENDER") != "" {
		sendForEver(os.Getenv("WEFT_SHM_SENDER"))
		return
	}
	for range 5 {
		b := listen(t, Config{})
		cmd := exec.Command(os.Args[0], "-test.run=^TestAKilledSenderLeavesWholeFrames$")
		cmd.Env = append(os.Environ(), "WEFT_SHM_SENDER="+String(b.Addr()))
		if _, err := cmd.StdinPipe(); err != nil { // it ends with this program, however that ends
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c := &counter{t: t}
		for end := time.Now().Add(time.Minute); c.frames < 2000 && time.Now().Before(end); {
			b.Poll(now(), c)
		}
		if c.frames < 2000 {
			t.Errorf("%d frames have come from another process; expected 2000", c.frames)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for end := time.Now().Add(time.Minute); len(b.in) > 0 && time.Now().Before(end); {
			b.Poll(now(), c)
		}
		if len(b.in) > 0 {
			t.Error("the end of the sender has not been noticed")
		}
		b.Close()
	}
}

// sendForEver sends until its input ends.
func sendForEver(to string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	d, err := Listen(Config{})
	if err != nil {
		panic(err)
	}
	a, _ := Parse(to)
	for i := 0; ; {
		if f := d.Reserve(a); f != nil {
			n := 1 + i*37%5000
			for k := range n {
				f[k] = byte(i + k)
			}
			d.Commit(n)
			i++
		}
		d.Flush(now())
		d.Poll(now(), nil)
	}
}

// counter checks the frames of sendForEver.
type counter struct {
	t      *testing.T
	frames int
}

func (c *counter) Receive(_ clock.Time, _ link.Addr, frame []byte) {
	i := c.frames
	c.frames++
	if n := 1 + i*37%5000; len(frame) != n || frame[0] != byte(i) || frame[n-1] != byte(i+n-1) {
		c.t.Fatalf("frame %d has %d bytes, or other bytes than were sent; expected %d", i, len(frame), n)
	}
}

func (c *counter) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

func TestAHelloThatNoDriverSendsIsRefused(t *testing.T) {
	d := listen(t, Config{})
	for _, hello := range []string{"", "x", "0123456789abcdef", strings.Repeat("y", 100)} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(fd, socketName(d.addr)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Sendto(fd, []byte(hello), 0, nil); err != nil {
			t.Fatal(err)
		}
		before := d.counters.DroppedIn
		pollUntil(t, d, "the connection is refused", func() bool { return d.counters.DroppedIn > before })
		unix.Close(fd)
	}
	if len(d.in)+len(d.hellos) != 0 {
		t.Errorf("%d connections and %d hellos are left; expected none", len(d.in), len(d.hellos))
	}
}

// silent connects to a driver and sends nothing.
func silent(t *testing.T, d *Driver) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Connect(fd, socketName(d.Addr())); err != nil {
		t.Fatal(err)
	}
	d.look()
}

func TestConnectionsThatSayNothingAreBoundedAndEndWithTheDriver(t *testing.T) {
	d := listen(t, Config{})
	silent(t, d)
	if len(d.hellos) != 1 {
		t.Fatalf("%d connections wait for their hello; expected 1", len(d.hellos))
	}
	waiting := d.hellos[0]
	for len(d.hellos) < limits.ShmPeers {
		d.hellos = append(d.hellos, -1)
	}
	silent(t, d)
	if d.hellos = d.hellos[:1]; d.counters.DroppedIn != 1 {
		t.Errorf("%d connections were refused beyond the bound; expected 1", d.counters.DroppedIn)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(waiting), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("its descriptor after Close: %v; expected %v", err, unix.EBADF)
	}
}

// Without free descriptors no connection can be accepted. The connection stays in line. It must
// neither keep a sleeper awake nor be forgotten.
func TestAConnectionThatNoDescriptorIsLeftForWaitsUntilThereIsOne(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	linktest.Send(t, a, b.Addr(), []byte("the first frame"))
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }()
	var in linktest.Inbox
	at := b.looked.Add(lookAfter)
	_, next := b.Poll(at, &in)
	fds := []unix.PollFd{{Fd: int32(b.Fd()), Events: unix.POLLIN}}
	// poll checks this limit, too.
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if n, _ := unix.Poll(fds, 0); n != 0 {
		t.Error("a connection that cannot be accepted keeps the descriptor readable")
	}
	if len(in.Frames) > 0 || next <= at || next > at.Add(time.Second) {
		t.Errorf("%d frames have come, and the next poll is to be in %v; expected none, and soon", len(in.Frames), next.Sub(at))
	}
	if b.Poll(next, &in); len(in.Frames) != 1 {
		t.Errorf("%d frames have come when there are descriptors again; expected 1", len(in.Frames))
	}
	c := listen(t, Config{})
	linktest.Send(t, c, b.Addr(), []byte("of another"))
	if !readable(t, b.Fd()) {
		t.Error("a connection is not announced any more")
	}
	linktest.Collect(t, b, &in, 2)
}

// closer closes its driver after a number of frames.
type closer struct {
	d    *Driver
	left int
}

func (c *closer) Receive(clock.Time, link.Addr, []byte) {
	if c.left--; c.left == 0 {
		_ = c.d.Close()
	}
}

func (c *closer) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(c, now, from, frames, size)
}

func TestADriverMayBeClosedByTheLastFrameOfABatch(t *testing.T) {
	a, b := listen(t, Config{}), listen(t, Config{})
	for range limits.PollBatch {
		if a.Reserve(b.Addr()) == nil {
			t.Fatal("the ring is full")
		}
		a.Commit(1)
	}
	a.Flush(0)
	b.look()
	if n, next := b.Poll(0, &closer{b, limits.PollBatch}); n != limits.PollBatch || next != clock.Never {
		t.Errorf("a poll of %d frames, next at %v", n, next)
	}
}
