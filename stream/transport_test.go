package stream_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// telling answers each request with the name of the request, and counts its connections.
func telling(t *testing.T, p *weft.Process, service string, protocols *http.Protocols) (accepted *atomic.Int32) {
	t.Helper()
	l, err := stream.Listen(p, service)
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int32)
	s := &http.Server{
		Protocols: protocols,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				accepted.Add(1)
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s of %s over %s", r.Method, r.URL.Path, r.Host, r.Proto)
		}),
	}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return accepted
}

// gets fetches a URL and compares the body with want.
func gets(t *testing.T, client *http.Client, url, want string) {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || string(got) != want {
		t.Errorf("GET %s: %q, %v; expected %q", url, got, err, want)
	}
}

func TestATransportFindsServicesByTheHostsOfURLs(t *testing.T) {
	for name, cfg := range fabrics {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			telling(t, a, "http", nil)
			telling(t, a, "80", nil)
			telling(t, a, "8080", nil)
			transport := stream.Transport(b)
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: time.Minute}
			for url, host := range map[string]string{
				"http://http.0.a.weft/path":     "http.0.a.weft",
				"http://http.0.a.weft:99/path":  "http.0.a.weft:99",
				"http://0.a.weft/path":          "0.a.weft",
				"http://0.a.weft:8080/path":     "0.a.weft:8080",
				"http://http.0.A.WEFT./path":    "http.0.A.WEFT.",
				"http://8080.0.a.weft:80/path":  "8080.0.a.weft:80",
				"http://http.0.a/path?q=nobody": "http.0.a",
			} {
				gets(t, client, url, "GET /path of "+host+" over HTTP/1.1")
			}
		})
	}
}

// A program that needs other settings creates an http.Transport from a Dialer.
func TestADialContextServesATransportAsItIs(t *testing.T) {
	a, b := pair(t, weft.Config{})
	telling(t, a, "http", nil)
	d := &stream.Dialer{Process: b}
	transport := &http.Transport{DialContext: d.DialContext}
	defer transport.CloseIdleConnections()
	gets(t, &http.Client{Transport: transport, Timeout: time.Minute}, "http://http.0.a.weft/", "GET / of http.0.a.weft over HTTP/1.1")
}

func TestATransportKeepsItsConnections(t *testing.T) {
	a, b := pair(t, weft.Config{})
	accepted := telling(t, a, "http", nil)
	transport := stream.Transport(b)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for i := range 10 {
		gets(t, client, fmt.Sprintf("http://http.0.a.weft/%d", i), fmt.Sprintf("GET /%d of http.0.a.weft over HTTP/1.1", i))
	}
	if n := accepted.Load(); n != 1 {
		t.Errorf("10 requests in a row took %d connections; expected 1", n)
	}
}

func TestATransportSpeaksHTTP2WithoutTLSIfItIsTold(t *testing.T) {
	a, b := pair(t, weft.Config{})
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	telling(t, a, "h2c", &protocols)
	transport := stream.Transport(b)
	transport.Protocols = &protocols
	defer transport.CloseIdleConnections()
	gets(t, &http.Client{Transport: transport, Timeout: time.Minute}, "http://h2c.0.a.weft/", "GET / of h2c.0.a.weft over HTTP/2.0")
}

func TestATransportSpeaksHTTP2OverTLSByItself(t *testing.T) {
	a, b := pair(t, weft.Config{})
	l, err := stream.Listen(a, "https")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
	transport := stream.Transport(b)
	defer transport.CloseIdleConnections()
	s.TLSConfig, transport.TLSClientConfig = certified(t, "https.0.a.weft")
	go s.ServeTLS(l, "", "")
	defer s.Close()
	gets(t, &http.Client{Transport: transport, Timeout: time.Minute}, "https://https.0.a.weft/", "HTTP/2.0")
}

func TestATransportReportsWhyADialFailed(t *testing.T) {
	_, b := pair(t, weft.Config{})
	for what, c := range map[string]struct {
		p    *weft.Process
		url  string
		want error
	}{
		"a host of no service":     {b, "http://example.com/", weft.ErrBadArgument},
		"an IP":                    {b, "http://127.0.0.1/", weft.ErrBadArgument},
		"a service nothing serves": {b, "http://none.0.a.weft/", syscall.ECONNREFUSED},
		"no process":               {nil, "http://http.0.a.weft/", weft.ErrBadArgument},
	} {
		r, err := (&http.Client{Transport: stream.Transport(c.p), Timeout: time.Minute}).Get(c.url)
		if err == nil {
			r.Body.Close()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v; expected %v", what, err, c.want)
		}
	}
}

// A proxy of the environment serves hosts of the Internet, and does not know services of the
// fabric.
func TestATransportAsksNoProxyOfTheEnvironmentAndHasTheLimitsOfTheDefault(t *testing.T) {
	_, b := pair(t, weft.Config{})
	got, want := stream.Transport(b), http.DefaultTransport.(*http.Transport)
	if got.Proxy != nil {
		t.Error("the Transport asks for a proxy")
	}
	limits := func(t *http.Transport) string {
		return strings.Join([]string{fmt.Sprint(t.MaxIdleConns), t.IdleConnTimeout.String(), t.TLSHandshakeTimeout.String(), t.ExpectContinueTimeout.String(), fmt.Sprint(t.ForceAttemptHTTP2)}, ", ")
	}
	if limits(got) != limits(want) {
		t.Errorf("the Transport has the limits %s; the default one has %s", limits(got), limits(want))
	}
	if stream.Transport(b) == got {
		t.Error("two calls return one Transport")
	}
}
