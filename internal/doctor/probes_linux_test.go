package doctor

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testenv"
)

// A probe may get its time so late that only the error is left.
func TestAProbeThatIsLateReportsThePendingError(t *testing.T) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(testenv.Loopback(t))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { pending(t, int(fd)) }); err != nil {
		t.Fatal(err)
	}
	if err := refusal(c, time.Unix(1, 0)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the probe returns %v; expected that no program has the port", err)
	}
}

// pending waits until the network has reported an error to a socket.
func pending(t *testing.T, fd int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 1000); n > 0 {
			return
		}
	}
	t.Fatal("no error arrives")
}

// newProber returns a prober of a port of this host at which none listens.
func newProber(t *testing.T) *prober {
	t.Helper()
	fd, err := openProber(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &prober{fd: fd}
}

// With a long round trip, the error of a batch arrives when single datagrams are probed.
func TestAnErrorCountsForItsOwnProbe(t *testing.T) {
	p := newProber(t)
	if err := errors.Join(p.send(secondBatch, offloadBytes), p.send(singles, offloadBytes)); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Minute)
	if err := errors.Join(p.await(singles, 1, end), p.await(secondBatch, 1, end)); err != nil {
		t.Fatal(err)
	}
	if p.errors != [offloadProbes]int{secondBatch: 1, singles: 1} || !p.works() {
		t.Errorf("the errors of the probes are %v; expected one of each", p.errors)
	}
}

func TestErrorsThatHaveArrivedCountHoweverLateTheyAreRead(t *testing.T) {
	p := newProber(t)
	if err := p.send(singles, offloadBytes); err != nil {
		t.Fatal(err)
	}
	pending(t, p.fd)
	if err := p.await(singles, 2, time.Unix(1, 0)); err != nil || p.errors[singles] != 1 {
		t.Errorf("the errors are %v, %v; expected one", p.errors, err)
	}
}
