package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// conversation records the exchange between a client and a Dial that asks.
type conversation struct {
	said   string // answer of the proxy
	err    error  // error of the Dial
	dialed string // HOST PORT; "": nothing was dialled
}

// converse makes a client send a text and end its direction. If refusal is not nil, each dial
// fails with it.
func converse(t *testing.T, u *Users, text string, refusal error) (c conversation) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	from, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(client, text); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	to, err := asked(u, func(_ context.Context, host string, port uint16) (net.Conn, error) {
		c.dialed = fmt.Sprint(host, " ", port)
		if refusal != nil {
			return nil, refusal
		}
		return end(t), nil
	})(t.Context(), from)
	if c.err = err; err == nil {
		to.Close()
	}
	_ = from.(*net.TCPConn).CloseWrite()
	said, err := io.ReadAll(client)
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	c.said = string(said)
	return c
}

// Each answer of SOCKS5 has the code of the failure, and nothing after it.
func TestSOCKS5TellsWhatWentWrong(t *testing.T) {
	u := usersOf(t, true)
	const hello = "\x05\x01\x00"
	code := func(c byte) string { return "\x05\x00\x05" + string(c) + granted[2:] }
	for name, c := range map[string]struct {
		users   *Users
		says    string
		refusal error
		answer  string
		told    bool
		dialed  string
	}{
		"a service":                      {nil, hello + toService, nil, code(0), false, "echo 7"},
		"a high port":                    {nil, hello + "\x05\x01\x00\x03\x04echo\xff\xfe", nil, code(0), false, "echo 65534"},
		"a service that refuses":         {nil, hello + toService, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, code(5), true, "echo 7"},
		"a service without a route":      {nil, hello + toService, syscall.EHOSTUNREACH, code(4), true, "echo 7"},
		"a service that does not answer": {nil, hello + toService, context.DeadlineExceeded, code(4), true, "echo 7"},
		"another failure":                {nil, hello + toService, io.ErrNoProgress, code(1), true, "echo 7"},
		"no room":                        {nil, hello + toService, errFull, code(1), true, "echo 7"},
		"a request of another version":   {nil, hello + "\x04" + toService[1:], nil, code(1), true, ""},
		"another command":                {nil, hello + "\x05\x03" + toService[2:], nil, code(7), true, ""},
		"an IPv6 address":                {nil, hello + "\x05\x01\x00\x04", nil, code(8), true, ""},
		"no method":                      {nil, "\x05\x00" + toService, nil, "\x05\xff", true, ""},
		"no password where one is due":   {u, hello + toService, nil, "\x05\xff", true, ""},
		"a password of another version":  {u, "\x05\x01\x02\x02\x05alice\x0bopen sesame" + toService, nil, "\x05\x02", false, ""},
		"a wrong password":               {u, "\x05\x01\x02\x01\x05alice\x05wrong" + toService, nil, "\x05\x02\x01\x01", true, ""},
	} {
		got := converse(t, c.users, c.says, c.refusal)
		if got.said != c.answer || got.dialed != c.dialed || (got.err == nil) != (c.answer == code(0)) || errors.As(got.err, new(errTold)) != c.told {
			t.Errorf("%s: the client is told %q, %q is dialled, and it ends with %v; expected %q and %q", name, got.said, got.dialed, got.err, c.answer, c.dialed)
		}
		if c.refusal != nil && !errors.Is(got.err, c.refusal) {
			t.Errorf("%s: it ends with %v; expected %v", name, got.err, c.refusal)
		}
	}
}

// Each answer to a CONNECT has its status. The answer to a refusal has the complete reason as its
// body.
func TestHTTPTellsWhatWentWrong(t *testing.T) {
	u := usersOf(t, true)
	const rest = " HTTP/1.1\r\n\r\n"
	pad := func(n int) string { // a request of n bytes
		head := "CONNECT echo:7 HTTP/1.1\r\nX:\t"
		return head + strings.Repeat("x", n-len(head)-4) + "\r\n\r\n"
	}
	for name, c := range map[string]struct {
		users   *Users
		says    string
		refusal error
		status  int
		dialed  string
	}{
		"a service":                    {nil, "CONNECT echo:7" + rest, nil, 200, "echo 7"},
		"an older version":             {nil, "CONNECT echo:7 HTTP/1.0\r\n\r\n", nil, 200, "echo 7"},
		"the highest port":             {nil, "CONNECT echo:65535" + rest, nil, 200, "echo 65535"},
		"a port beyond":                {nil, "CONNECT echo:65536" + rest, nil, 400, ""},
		"a port below":                 {nil, "CONNECT echo:-1" + rest, nil, 400, ""},
		"a request of another version": {nil, "CONNECT echo:7 HTTP/2.0\r\n\r\n", nil, 400, ""},
		"no version":                   {nil, "CONNECT echo:7\r\n\r\n", nil, 400, ""},
		"another method":               {nil, "GET http://echo:7/" + rest, nil, 405, ""},
		"a control character":          {nil, "CONNECT echo:7 HTTP/1.1\r\nX: \x0b\r\n\r\n", nil, 400, ""},
		"the longest request":          {nil, pad(mostAsked), nil, 200, "echo 7"},
		"a request that is longer":     {nil, pad(mostAsked + 1), nil, 431, ""},
		"a service that refuses":       {nil, "CONNECT echo:7" + rest, syscall.ECONNREFUSED, 502, "echo 7"},
		"no room":                      {nil, "CONNECT echo:7" + rest, errFull, 503, "echo 7"},
		"no password where one is due": {u, "CONNECT echo:7" + rest, nil, 407, ""},
		"another method, no password":  {u, "GET http://echo:7/" + rest, nil, 407, ""},
		"no request, no password":      {u, "hello" + rest, nil, 400, ""},
		"another method with a password": {u, strings.Replace(strings.TrimSuffix(byHTTP("alice", "open sesame"), "bytes"), "CONNECT", "TRACE", 1),
			nil, 405, ""},
	} {
		got := converse(t, c.users, c.says, c.refusal)
		behind := bufio.NewReader(strings.NewReader(got.said))
		r, err := http.ReadResponse(behind, &http.Request{Method: http.MethodConnect})
		if err != nil || r.StatusCode != c.status || got.dialed != c.dialed || (got.err == nil) != (c.status == 200) {
			t.Errorf("%s: the client is told %q (%v), %q is dialled, and it ends with %v; expected the status %d", name, got.said, err, got.dialed, got.err, c.status)
			continue
		}
		text := ""
		if got.err != nil {
			text = got.err.Error() + "\n"
		}
		body, err := io.ReadAll(io.MultiReader(r.Body, behind))
		if err != nil || string(body) != text || got.err != nil && (!r.Close || r.ContentLength != int64(len(text)) || !errors.As(got.err, new(errTold))) {
			t.Errorf("%s: the answer %q has the body %q (%v); expected %q, whose length and end it tells", name, got.said, body, err, text)
		}
		if asks := r.Header.Get("Proxy-Authenticate") != ""; asks != (c.status == 407) {
			t.Errorf("%s: the answer asks for a password: %v", name, asks)
		}
	}
}

// A truncated request is invalid: nothing is dialled, and each client's connection ends.
func TestPrefixesOfRequestsDialNothing(t *testing.T) {
	for name, r := range requests {
		u := usersOf(t, r.users)
		for i := range len(r.says) {
			client, from := net.Pipe()
			go io.Copy(io.Discard, client)
			go func() {
				_, _ = io.WriteString(client, r.says[:i])
				client.Close()
			}()
			to, err := asked(u, func(context.Context, string, uint16) (net.Conn, error) {
				t.Errorf("%s: the first %d bytes dial", name, i)
				return nil, io.EOF
			})(t.Context(), from)
			if err == nil {
				t.Errorf("%s: the first %d bytes dial, to %v", name, i, to)
			}
			from.Close()
		}
	}
}

// A client has limited time to read its answer. Then the proxy closes the connection that it
// dialled.
func TestAClientThatDoesNotTakeItsAnswerEndsInTime(t *testing.T) {
	for name, r := range requests {
		u := usersOf(t, r.users)
		for what, refusal := range map[string]error{"a service": nil, "a failed dial": syscall.ECONNREFUSED} {
			synctest.Test(t, func(t *testing.T) {
				client, from := net.Pipe()
				defer client.Close()
				defer from.Close()
				to, server := net.Pipe()
				defer server.Close()
				go func() { // reads up to the last answer
					go io.WriteString(client, r.says)
					_, _ = io.ReadFull(client, make([]byte, len(r.answer)-len(lastAnswer(r.answer))))
				}()
				begun := time.Now()
				_, err := asked(u, func(context.Context, string, uint16) (net.Conn, error) { return to, refusal })(t.Context(), from)
				if want := refusal; want == nil && !errors.Is(err, os.ErrDeadlineExceeded) || want != nil && !errors.Is(err, want) {
					t.Errorf("%s, %s: it ends with %v", name, what, err)
				}
				if took := time.Since(begun); took != limits.HandshakeWithin {
					t.Errorf("%s, %s: it ends after %v; expected %v", name, what, took, limits.HandshakeWithin)
				}
				if err := to.SetDeadline(time.Time{}); (err == nil) != (refusal != nil) {
					t.Errorf("%s, %s: the connection that was dialled says %v", name, what, err)
				}
				to.Close()
			})
		}
	}
}

// lastAnswer returns the proxy's answer after its dial.
func lastAnswer(all string) string {
	if strings.HasSuffix(all, granted) {
		return granted
	}
	return all
}
