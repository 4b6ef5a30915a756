package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

func TestAPortInUseIsAClearErrorAtStart(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	at := other.Addr().(*net.TCPAddr).AddrPort()
	_, err = Listen(Config{Address: Address{TCP: netip.AddrPortFrom(at.Addr().Unmap(), at.Port())}, Log: slog.Default()})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "expected a free port") {
		t.Errorf("%v; want an error with the cure", err)
	}
}

func TestASocketOfADeadDaemonIsReplacedAndThatOfALivingOneIsNot(t *testing.T) {
	c := unixSocket(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.Address.Path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	s := serve(t, c, daemonOf(nicOf(t, "udp", 0)))
	if _, err := Listen(c); err == nil || !strings.Contains(err.Error(), "a program listens at") {
		t.Errorf("a second server: %v; want it refused", err)
	}
	if status, _ := s.get(healthPath); status != http.StatusOK {
		t.Errorf("the first server answers with %d", status)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(c.Address.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of a closed server is there: %v", err)
	}
	if err := os.WriteFile(c.Address.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(c); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file in its place: %v; want it refused", err)
	}
}

func TestTheOldestOfTooManyConnectionsGivesWay(t *testing.T) {
	s := serve(t, loopback(), daemonOf(nicOf(t, "udp", 0)))
	var all []net.Conn
	for range limits.MetricsConnections + 3 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		all = append(all, c)
	}
	for i, c := range all[:3] {
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d is still open beside %d others", i, len(all)-1)
		}
	}
	last := all[len(all)-1]
	fmt.Fprint(last, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if line, err := bufio.NewReader(last).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("the newest connection gets %q, %v; want an answer", line, err)
	}
	if got := s.value("weft_metrics_connections_ousted_total"); got == "" || got == "0" {
		t.Errorf("%q connections were ousted; want some", got)
	}
}

func TestAVisitorThatIsSlowOrSendsTooMuchLosesItsConnection(t *testing.T) {
	c := loopback()
	c.Log = slog.New(slog.DiscardHandler)
	l, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.http.ReadHeaderTimeout = 10 * time.Millisecond
	if err := l.Serve(daemonOf(nicOf(t, "udp", 0))); err != nil {
		t.Fatal(err)
	}
	slow, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprint(slow, "GET /metrics HTTP/1.1\r\nHost: loc")
	slow.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(slow); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("half a header keeps its connection")
	}
	s := serve(t, loopback(), daemonOf(nicOf(t, "udp", 0)))
	status, _ := s.get(metricsPath, func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 64<<10)) })
	if status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB gets status %d; want 431", status)
	}
}

func TestOneProfileIsMadeAtATimeAndNoneThatIsLong(t *testing.T) {
	s := serve(t, unixSocket(t), daemonOf(nicOf(t, "udp", 0)))
	for _, seconds := range []string{"61", "0", "-1", "NaN", "x", "1e99"} {
		if status, body := s.get("/debug/pprof/profile?seconds=" + seconds); status != http.StatusBadRequest {
			t.Errorf("seconds=%s: %d, %s; want 400", seconds, status, body)
		}
	}
	begun, release := make(chan struct{}), make(chan struct{})
	wrap := oneAtATime()
	slow := wrap(func(http.ResponseWriter, *http.Request) { close(begun); <-release })
	ended := make(chan struct{})
	go func() { slow.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)); close(ended) }()
	<-begun
	second := httptest.NewRecorder()
	wrap(func(http.ResponseWriter, *http.Request) { t.Error("a second profile is made beside the first") }).
		ServeHTTP(second, httptest.NewRequest("GET", "/", nil))
	if second.Code != http.StatusServiceUnavailable {
		t.Errorf("a second profile gets status %d; want 503", second.Code)
	}
	close(release)
	<-ended
}

// net/http waits for the rest of a body before it sends an answer. Four such visitors would keep
// Prometheus out, and one that asks for a profile would hold up the end of the daemon.
func TestAVisitorThatAnnouncesABodyGetsAnAnswerAtOnce(t *testing.T) {
	unix := unixSocket(t)
	for _, c := range []struct {
		config  Config
		request string
	}{
		{loopback(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1"},
		{loopback(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked"},
		{loopback(), "GET /debug/pprof/heap HTTP/1.1\r\nHost: elsewhere\r\nContent-Length: 1"},
		{unix, "GET /debug/pprof/profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1"},
	} {
		s := serve(t, c.config, daemonOf(nicOf(t, "udp", 20)))
		conn, err := net.Dial(s.Addr().Network(), addressOf(s.Server, c.config))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprint(conn, c.request, "\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 400 ") {
			t.Errorf("%.40s… gets %q, %v; want status 400", c.request, line, err)
		}
		if got := s.value(`weft_metrics_requests_total{code="400",page="` + pageOf(strings.Fields(c.request)[1]) + `"}`); got != "1" {
			t.Errorf("%.40s… counts %q requests; want 1", c.request, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// deadlines notes the deadline of a visitor's connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at
	return nil
}

func TestAVisitorThatNeverSendsItsBodyLosesItsConnection(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	refuseBody(&statusWriter{ResponseWriter: w})
	if w.read.IsZero() || w.Header().Get("Connection") != "close" || w.Code != http.StatusBadRequest {
		t.Errorf("read until %v, Connection: %s, status %d", w.read, w.Header().Get("Connection"), w.Code)
	}
}

// Answers read memory that the daemon unmaps after Close.
func TestCloseWaitsForAnswersThatAreBeingMade(t *testing.T) {
	n := nicOf(t, "udp", 0)
	reading, release := make(chan struct{}), make(chan struct{})
	n.Peers = func() []Peer { close(reading); <-release; return nil }
	s := serve(t, loopback(), daemonOf(n))
	go s.client.Get(s.base + metricsPath) // its connection ends
	<-reading
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if !s.begin() {
			break
		}
		s.answers.Done()
		if time.Now().After(end) {
			t.Fatal("a Server that closes goes on answering")
		}
	}
	select {
	case <-closed:
		t.Error("Close returned while an answer was being made")
	case <-time.After(20 * time.Millisecond): // a Close that does not wait has returned by now
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
