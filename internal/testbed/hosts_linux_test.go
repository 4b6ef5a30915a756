package testbed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
)

// patience bounds waits that end soon unless something is broken.
const patience = time.Minute

// build makes a testbed for one test, or skips the test if a testbed is not possible.
func build(t *testing.T, c testbed.Config) *testbed.Testbed {
	t.Helper()
	tb, err := testbed.New(c)
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tb.Close() })
	return tb
}

// listen opens a UDP socket on a host, bound to one of its addresses.
func listen(t *testing.T, h *testbed.Host, addr netip.Addr) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := h.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	if err != nil {
		t.Fatalf("host %d: %v", h.Index(), err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

func port(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// exchange sends a datagram from a to b, and another from b to a.
func exchange(t *testing.T, a, b *net.UDPConn) {
	t.Helper()
	buf := make([]byte, 16)
	if _, err := a.WriteToUDPAddrPort([]byte("there"), port(b)); err != nil {
		t.Fatal(err)
	}
	n, from, err := b.ReadFromUDPAddrPort(buf)
	if err != nil || string(buf[:n]) != "there" || from != port(a) {
		t.Fatalf("%v received %q from %v, error %v; want \"there\" from %v", port(b), buf[:n], from, err, port(a))
	}
	if _, err := b.WriteToUDPAddrPort([]byte("back"), from); err != nil {
		t.Fatal(err)
	}
	n, from, err = a.ReadFromUDPAddrPort(buf)
	if err != nil || string(buf[:n]) != "back" || from != port(b) {
		t.Fatalf("%v received %q from %v, error %v; want \"back\" from %v", port(a), buf[:n], from, err, port(b))
	}
}

func exchangeAll(t *testing.T, tb *testbed.Testbed) {
	t.Helper()
	for i := range tb.Hosts() {
		for j := range tb.Hosts() {
			a, b := tb.Host(i), tb.Host(j)
			exchange(t, listen(t, a, a.Addr()), listen(t, b, b.Addr()))
			if a.Addr6().IsValid() && b.Addr6().IsValid() {
				exchange(t, listen(t, a, a.Addr6()), listen(t, b, b.Addr6()))
			}
		}
	}
}

func TestTwoHostsTalkOverOneCable(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2})
	exchangeAll(t, tb)
	if err := tb.SetLoss(0.5); err == nil {
		t.Error("a cable without a loss program takes a loss")
	}
	if c, err := tb.Drops(); c != (testbed.Counters{}) || err != nil {
		t.Errorf("Drops() = %+v, %v on a cable, want zeros", c, err)
	}
}

func TestThreeHostsTalkThroughASwitch(t *testing.T) {
	exchangeAll(t, build(t, testbed.Config{Hosts: 3}))
}

func TestOneHostTalksToItself(t *testing.T) {
	exchangeAll(t, build(t, testbed.Config{Hosts: 1}))
}

func TestHostsAreReachedWithoutAskingForNeighbours(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2, Lossy: true})
	if err := tb.Host(1).SetLoss(1); err != nil { // so that it cannot answer
		t.Fatal(err)
	}
	for _, addr := range []func(*testbed.Host) netip.Addr{(*testbed.Host).Addr, (*testbed.Host).Addr6} {
		from, to := addr(tb.Host(0)), addr(tb.Host(1))
		if !from.IsValid() {
			continue // no IPv6
		}
		a, b := listen(t, tb.Host(0), from), listen(t, tb.Host(1), to)
		flood(t, a, b, 1)
		if _, _, err := b.ReadFromUDPAddrPort(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
}

func drops(t *testing.T, h *testbed.Host) testbed.Counters {
	t.Helper()
	c, err := h.Drops()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// flood sends n datagrams from a to b. They are not read.
func flood(t *testing.T, a, b *net.UDPConn, n int) {
	t.Helper()
	for range n {
		if _, err := a.WriteToUDPAddrPort([]byte("x"), port(b)); err != nil {
			t.Fatal(err)
		}
	}
}

// counted waits until the program of h has counted n frames more than before.
func counted(t *testing.T, h *testbed.Host, before testbed.Counters, n int) testbed.Counters {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		c := drops(t, h)
		c.Dropped -= before.Dropped
		c.Passed -= before.Passed
		if c.Dropped+c.Passed >= uint64(n) {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("host %d: program counted %+v of %d frames", h.Index(), c, n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestFramesAreLostAtTheRateThatIsSet(t *testing.T) {
	const n = 20000
	const burst = 100 // half of what a cable holds before the kernel runs the program
	tb := build(t, testbed.Config{Hosts: 2, Loss: 0.05})
	for i, h := range []*testbed.Host{tb.Host(0), tb.Host(1)} {
		a, b := listen(t, h, h.Addr()), listen(t, tb.Host(1-i), tb.Host(1-i).Addr())
		for _, p := range []float64{0.05, 0, 0.2, 1} {
			if err := tb.SetLoss(p); err != nil {
				t.Fatal(err)
			}
			mine, other := drops(t, h), drops(t, tb.Host(1-i))
			var c testbed.Counters
			for sent := burst; sent <= n; sent += burst {
				flood(t, a, b, burst)
				c = counted(t, h, mine, sent)
			}
			total := float64(c.Dropped + c.Passed)
			if total > n+100 {
				t.Errorf("host %d sent %d datagrams and the program saw %.0f frames", i, n, total)
			}
			// Six standard deviations: one false alarm in five hundred million.
			if got, slack := float64(c.Dropped)/total, 6*math.Sqrt(p*(1-p)/total); math.Abs(got-p) > slack {
				t.Errorf("host %d lost a share of %.4f, want %v ± %.4f", i, got, p, slack)
			}
			// Frames of host i cross the program of host i and no other.
			if d := drops(t, tb.Host(1-i)); d.Passed+d.Dropped-other.Passed-other.Dropped > 100 {
				t.Errorf("host %d sent, and the program of host %d counted: %+v before, %+v after", i, 1-i, other, d)
			}
		}
	}
}

func TestWhatIsCountedAsPassedArrives(t *testing.T) {
	const n = 200 // fits into a receive buffer
	tb := build(t, testbed.Config{Hosts: 2, Loss: 0.3})
	a, b := listen(t, tb.Host(0), tb.Host(0).Addr()), listen(t, tb.Host(1), tb.Host(1).Addr())
	// IPv6 may have sent announcements meanwhile, so the counters are an upper bound of the
	// arrivals, and nearly a lower bound.
	before := drops(t, tb.Host(0))
	flood(t, a, b, n)
	counted(t, tb.Host(0), before, n)
	if err := tb.SetLoss(0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.WriteToUDPAddrPort([]byte("last"), port(b)); err != nil {
		t.Fatal(err)
	}
	arrived, buf := 0, make([]byte, 8)
	for {
		m, _, err := b.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if string(buf[:m]) == "last" {
			break
		}
		arrived++
	}
	c := counted(t, tb.Host(0), before, n+1) // earlier frames were counted before the last one
	if uint64(arrived) > c.Passed || arrived > n-int(c.Dropped)+10 || arrived < n-int(c.Dropped) {
		t.Errorf("%d of %d datagrams arrived, the program counted %+v", arrived, n, c)
	}
}

func TestOneHostCanBeCutOff(t *testing.T) {
	const n = 100
	tb := build(t, testbed.Config{Hosts: 3, Lossy: true})
	if err := tb.Host(1).SetLoss(1); err != nil {
		t.Fatal(err)
	}
	exchange(t, listen(t, tb.Host(0), tb.Host(0).Addr()), listen(t, tb.Host(2), tb.Host(2).Addr()))
	before := drops(t, tb.Host(1))
	flood(t, listen(t, tb.Host(1), tb.Host(1).Addr()), listen(t, tb.Host(0), tb.Host(0).Addr()), n)
	if c := counted(t, tb.Host(1), before, n); c.Passed != 0 {
		t.Errorf("a host that loses everything got %d frames through", c.Passed)
	}
	if err := tb.Host(1).SetLoss(1.5); err == nil {
		t.Error("a loss of 1.5 is taken")
	}
}

func TestMTUIsThatOfEveryLink(t *testing.T) {
	for _, c := range []testbed.Config{{Hosts: 2}, {Hosts: 2, MTU: 9000}, {Hosts: 3, MTU: 1280}, {Hosts: 2, MTU: 9000, Lossy: true}} {
		tb := build(t, c)
		want := c.MTU
		if want == 0 {
			want = testbed.DefaultMTU
		}
		for i := range c.Hosts {
			h, to := tb.Host(i), tb.Host((i+1)%c.Hosts)
			var mtu int
			err := h.Do(func() error {
				l, err := net.InterfaceByName(testbed.Interface)
				if err == nil {
					mtu = l.MTU
				}
				return err
			})
			if err != nil || mtu != want {
				t.Errorf("%+v: host %d has MTU %d, error %v, want %d", c, i, mtu, err, want)
			}
			// The largest frame passes whole, and one byte more is refused.
			a, b := listen(t, h, h.Addr()), listen(t, to, to.Addr())
			forbidFragments(t, a)
			if _, err := a.WriteToUDPAddrPort(make([]byte, want-28+1), port(b)); !errors.Is(err, unix.EMSGSIZE) {
				t.Errorf("%+v: a datagram over the MTU: error %v, want %v", c, err, unix.EMSGSIZE)
			}
			if _, err := a.WriteToUDPAddrPort(make([]byte, want-28), port(b)); err != nil {
				t.Errorf("%+v: a datagram of the MTU: %v", c, err)
			}
			if n, _, err := b.ReadFromUDPAddrPort(make([]byte, want)); err != nil || n != want-28 {
				t.Errorf("%+v: %d bytes arrived, error %v, want %d", c, n, err, want-28)
			}
		}
		tb.Close()
	}
}

func TestASwitchMayCarryLessThanItsHosts(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2, Lossy: true})
	if err := tb.Host(1).SetPathMTU(1300); err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]int{{0, 1}, {1, 0}} {
		from, to := tb.Host(way[0]), tb.Host(way[1])
		a, b := listen(t, from, from.Addr()), listen(t, to, to.Addr())
		forbidFragments(t, a)
		// A few bytes more may pass: room for a VLAN tag.
		for _, n := range []int{1500 - 28, 1300 - 28 + 20, 1300 - 28} {
			if _, err := a.WriteToUDPAddrPort(make([]byte, n), port(b)); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		if n, _, err := b.ReadFromUDPAddrPort(make([]byte, 1500)); err != nil || n != 1300-28 {
			t.Errorf("from host %d: %d bytes have arrived, %v; expected the shortest datagram alone", way[0], n, err)
		}
	}
	if err := build(t, testbed.Config{Hosts: 2}).Host(0).SetPathMTU(1300); err == nil {
		t.Error("a cable without a switch takes a path MTU")
	}
}

func forbidFragments(t *testing.T, c *net.UDPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var e error
	err = raw.Control(func(fd uintptr) {
		e = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	})
	if err = errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
}

func TestCommandsRunOnTheirHost(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 3})
	ctx := context.Background()
	for i := range 3 {
		var want string
		if err := tb.Host(i).Do(func() (err error) { want, err = os.Readlink("/proc/thread-self/ns/net"); return err }); err != nil {
			t.Fatal(err)
		}
		out, err := tb.Host(i).Command(ctx, "readlink", "/proc/self/ns/net").Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("host %d: command ran in %s, error %v, want %s", i, got, err, want)
		}
	}
	out, err := tb.Host(0).Command(ctx, "sh", "-c", "echo out; echo err >&2; exit 3").CombinedOutput()
	if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.ExitCode() != 3 || string(out) != "out\nerr\n" {
		t.Errorf("CombinedOutput() = %q, %v", out, err)
	}
	out, err = tb.Host(0).Command(ctx, "sh", "-c", "echo out; echo err >&2; exit 4").Output()
	if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.ExitCode() != 4 || string(out) != "out\n" || string(e.Stderr) != "err\n" {
		t.Errorf("Output() = %q, %v", out, err)
	}
	if err := tb.Host(0).Command(ctx, "/no/such/command").Run(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that is not there: %v", err)
	}
}

func TestHostsThatAreApartShareNoProcessor(t *testing.T) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	if may.Count() < 2 {
		t.Skip("one processor: two hosts cannot but share it")
	}
	tb := build(t, testbed.Config{Hosts: 2, Apart: true})
	var seen [2]string
	all := 0
	for i := range seen {
		out, err := tb.Host(i).Command(context.Background(), "sh", "-c", "grep Cpus_allowed_list /proc/self/status; nproc").Output()
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(string(out))
		n, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		seen[i], all = words[1], all+n
	}
	if all != may.Count() || seen[0] == seen[1] {
		t.Errorf("of %d processors one host has %s, and the other %s", may.Count(), seen[0], seen[1])
	}
}

func TestAProgramHasTheShareOfTheProcessorsThatItWasStartedWith(t *testing.T) {
	var may, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, n := range []int{1, 2, may.Count(), may.Count() + 1} {
		sum := 0
		for i := range n {
			err := testbed.Apart(i, n, func() error {
				out, err := exec.Command("nproc").Output()
				if err != nil {
					return err
				}
				k, err := strconv.Atoi(strings.TrimSpace(string(out)))
				sum += k
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		want := may.Count()
		if n > want { // each host has all
			want *= n
		}
		if sum != want {
			t.Errorf("%d shares of %d processors have %d together", n, may.Count(), sum)
		}
	}
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != may {
		t.Errorf("the thread may use %d processors afterwards, of %d: %v", after.Count(), may.Count(), err)
	}
}

func TestContextKillsACommand(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 1})
	ctx, cancel := context.WithCancel(context.Background())
	c := tb.Host(0).Command(ctx, "sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.Wait(); err == nil {
		t.Error("sleep ended well although its context was cancelled")
	}
}

func TestCloseKillsCommands(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2})
	c := tb.Host(1).Command(context.Background(), "sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tb.Close()
	err := c.Wait()
	if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("after Close, sleep ended with %v, want SIGKILL", err)
	}
}

func TestDoReturnsToWhereItCameFrom(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 2})
	home := inode(t)
	wrong := errors.New("wrong")
	if err := tb.Host(0).Do(func() error { return wrong }); err != wrong {
		t.Errorf("Do() = %v, want what its function returned", err)
	}
	err := tb.Host(0).Do(func() error {
		outer := inode(t)
		if outer == home {
			return errors.New("not on the host")
		}
		return tb.Host(1).Do(func() error {
			if in := inode(t); in == outer || in == home {
				return errors.New("not on the second host")
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	for range 50 { // threads that were on a host are reused
		done := make(chan uint64)
		go func() { done <- inode(t) }()
		if got := <-done; got != home {
			t.Fatal("a goroutine found itself on a host that it was not sent to")
		}
	}
}

// inode identifies the network namespace of the calling thread.
func inode(t *testing.T) uint64 {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		t.Error(err)
	}
	return st.Ino
}

func TestDoCarriesGoexitOver(t *testing.T) {
	tb := build(t, testbed.Config{Hosts: 1})
	past := make(chan bool, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tb.Host(0).Do(func() error {
			(&testing.T{}).SkipNow()
			return nil
		})
		past <- true
	}()
	<-done
	if len(past) > 0 {
		t.Error("the caller of Do went on after its function had called Goexit")
	}
}

// TestWhatIsMissingIsNamed runs itself as a user with rights to namespaces but not to BPF, and as
// one with neither.
func TestWhatIsMissingIsNamed(t *testing.T) {
	const key = "WEFT_TESTBED_TEST_PRINTS_ERROR"
	if os.Getenv(key) != "" {
		_, err := testbed.New(testbed.Config{Hosts: 3, Loss: 0.1})
		fmt.Printf("available: %v; error: %v\n", !errors.Is(err, testbed.ErrUnavailable), err)
		return
	}
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	root := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	for _, c := range []struct {
		as   *syscall.SysProcAttr
		want string
	}{
		{nobody, "available: false; error: testbed unavailable: making a network namespace: operation not permitted (needs CAP_SYS_ADMIN"},
		{root, "available: false; error: testbed unavailable: making a map for the loss program: "},
	} {
		self := exec.Command("/proc/self/exe", "-test.run=^TestWhatIsMissingIsNamed$")
		self.Env = append(os.Environ(), key+"=1")
		self.SysProcAttr = c.as
		out, err := self.CombinedOutput()
		if errors.Is(err, unix.EPERM) {
			t.Skip("cannot become another user:", err)
		}
		if err != nil || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "CAP_BPF") {
			t.Errorf("got %s (%v), want %q", out, err, c.want)
		}
	}
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	before, links := namespaces(t), interfaces(t)
	for _, c := range []testbed.Config{{Hosts: 2}, {Hosts: 4, Loss: 0.1}} {
		tb := build(t, c)
		if n := len(newNamespaces(t, before)); n < c.Hosts {
			t.Errorf("%+v: %d new namespaces, want one for every host", c, n)
		}
		if got := interfaces(t); got != links {
			t.Errorf("%+v: links outside the testbed changed from %s to %s", c, links, got)
		}
		tb.Close()
		tb.Close()
		if err := tb.Host(0).Do(func() error { return nil }); !errors.Is(err, testbed.ErrClosed) {
			t.Errorf("Do after Close: %v, want ErrClosed", err)
		}
		if err := tb.Host(0).Command(context.Background(), "true").Run(); !errors.Is(err, testbed.ErrClosed) {
			t.Errorf("Run after Close: %v, want ErrClosed", err)
		}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left := newNamespaces(t, before)
		if len(left) == 0 {
			break // threads end a moment after Close
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", left)
		}
	}
}

// namespaces lists the network namespaces of this process's threads, and those that it holds
// open.
func namespaces(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, dir := range []string{"/proc/self/fd", "/proc/self/task"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := fmt.Sprintf("%s/%s", dir, e.Name())
			if strings.HasSuffix(dir, "task") {
				path += "/ns/net"
			}
			if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, "net:") {
				found[to] = true
			}
		}
	}
	return found
}

// newNamespaces lists the present namespaces that are not in before.
func newNamespaces(t *testing.T, before map[string]bool) map[string]bool {
	now := namespaces(t)
	for ns := range before {
		delete(now, ns)
	}
	return now
}

// interfaces describes the links outside all testbeds.
func interfaces(t *testing.T) string {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, l := range list {
		fmt.Fprintf(&b, "%d:%s ", l.Index, l.Name)
	}
	return b.String()
}

func TestALinkThatIsRemovedComesBackWithItsAddressesAndItsLoss(t *testing.T) {
	for _, c := range []testbed.Config{{Hosts: 3}, {Hosts: 2, Lossy: true}} {
		tb := build(t, c)
		for range 2 {
			if err := tb.RemoveLink(1); err != nil {
				t.Fatal(err)
			}
			err := tb.Host(1).Do(func() error {
				_, err := net.InterfaceByName(testbed.Interface)
				return err
			})
			if err == nil {
				t.Error("the link is there after it was removed")
			}
			if err := tb.RestoreLink(1); err != nil {
				t.Fatal(err)
			}
			exchangeAll(t, tb)
		}
		if c.Lossy {
			if err := tb.Host(1).SetLoss(1); err != nil {
				t.Error(err)
			}
		}
	}
	if err := build(t, testbed.Config{Hosts: 2}).RemoveLink(1); err == nil || !strings.Contains(err.Error(), "host 1 is on no bridge; build with Config.Lossy") {
		t.Errorf("removing the end of a cable between two hosts: %v", err)
	}
}
