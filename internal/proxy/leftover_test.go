package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/newcomers"
)

// end returns one end of a connection. The end of the test closes both ends.
func end(t *testing.T) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	return here
}

// If a client gives way while the proxy admits it, it keeps no place of a connection.
func TestAClientThatGaveWayLeavesItsPlaceToOthers(t *testing.T) {
	p := &Proxy{newcomers: newcomers.New(1)}
	p.admitted.most = 1
	w := &Way{Asks: true}
	gone := p.enter(end(t), w)
	other := p.enter(end(t), w)
	if err := gone.admit(); !errors.Is(err, errGaveWay) {
		t.Fatalf("a client that gave way is admitted: %v; expected %v", err, errGaveWay)
	}
	gone.leave()
	if err := other.admit(); err != nil {
		t.Errorf("the client behind it is refused: %v", err)
	}
	other.leave()
	if p.admitted.used != 0 || p.newcomers.Len() != 0 {
		t.Errorf("%d connections and %d newcomers are left; expected none", p.admitted.used, p.newcomers.Len())
	}
}

// Only a wrong password is a guess. A check that was not made, or that succeeded, does not count
// as a try of its source.
func TestOnlyWrongPasswordsAreGuesses(t *testing.T) {
	u, err := parseUsers(someUsers(), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	u.tries.Every = time.Hour
	from := end(t)
	right := credentials{"alice", "open sesame"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 * limits.PasswordTries {
		u.users["alice"].good.Store(nil) // the proxy has not seen the password before
		u.waiting.used = u.waiting.most
		if err := u.check(t.Context(), from, right); !errors.Is(err, errUnchecked) {
			t.Fatalf("without room to wait: %v; expected %v", err, errUnchecked)
		}
		u.waiting.used = 0
		for range limits.PasswordChecks {
			<-u.checks
		}
		if err := u.check(ended, from, right); !errors.Is(err, context.Canceled) {
			t.Fatalf("as the proxy ends: %v; expected %v", err, context.Canceled)
		}
		for range limits.PasswordChecks {
			u.checks <- struct{}{}
		}
		if err := u.check(t.Context(), from, right); err != nil {
			t.Fatalf("the right password: %v", err)
		}
	}
}

// requests holds requests of clients that reach a service. A client reads answer before the bytes
// of the service.
var requests = map[string]struct {
	says, answer string
	users        bool
}{
	"SOCKS5": {"\x05\x01\x00" + toService, "\x05\x00" + granted, false},
	"SOCKS5 with a password": {"\x05\x01\x02\x01\x05alice\x0bopen sesame" + toService,
		"\x05\x02\x01\x00" + granted, true},
	"CONNECT":                 {"CONNECT echo:7 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", false},
	"CONNECT with a password": {strings.TrimSuffix(byHTTP("alice", "open sesame"), "bytes"), "HTTP/1.1 200 OK\r\n\r\n", true},
}

// The SOCKS5 request for a service, and the answer to it.
const (
	toService = "\x05\x01\x00\x03\x04echo\x00\x07"
	granted   = "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
)

// usersOf returns Users if a request needs some.
func usersOf(t *testing.T, needed bool) *Users {
	t.Helper()
	if !needed {
		return nil
	}
	u, err := parseUsers(someUsers(), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The deadlines of the request and of its answer end with them: a connection may be silent for
// hours, and a dial may take long.
func TestAConnectionThatWasAskedForHasNoDeadline(t *testing.T) {
	for name, r := range requests {
		u := usersOf(t, r.users)
		synctest.Test(t, func(t *testing.T) {
			client, from := net.Pipe()
			defer client.Close()
			defer from.Close()
			dial := asked(u, func(context.Context, string, uint16) (net.Conn, error) {
				time.Sleep(10 * limits.HandshakeWithin)
				return end(t), nil
			})
			go func() {
				_, _ = io.WriteString(client, r.says)
			}()
			read := make(chan string)
			go func() {
				b := make([]byte, len(r.answer))
				n, _ := io.ReadFull(client, b)
				read <- string(b[:n])
			}()
			if _, err := dial(t.Context(), from); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := <-read; got != r.answer {
				t.Fatalf("%s: the client reads %q; expected %q", name, got, r.answer)
			}
			go func() {
				time.Sleep(10 * limits.HandshakeWithin)
				_, _ = client.Write([]byte("x"))
				_, _ = io.ReadFull(client, make([]byte, 1))
			}()
			if _, err := io.ReadFull(from, make([]byte, 1)); err != nil {
				t.Errorf("%s: a read behind a long silence: %v", name, err)
			}
			if _, err := from.Write([]byte("y")); err != nil {
				t.Errorf("%s: a write behind a long silence: %v", name, err)
			}
		})
	}
}

// A client may disconnect while the proxy dials for it. The proxy then closes the connection that
// it dialled.
func TestAClientThatGoesDuringTheDialLeavesNoneThatWasDialled(t *testing.T) {
	for name, r := range requests {
		client, from := net.Pipe()
		to, server := net.Pipe()
		dial := asked(usersOf(t, r.users), func(context.Context, string, uint16) (net.Conn, error) {
			client.Close()
			return to, nil
		})
		go io.Copy(io.Discard, client)
		go func() { _, _ = io.WriteString(client, r.says) }()
		if _, err := dial(t.Context(), from); err == nil {
			t.Fatalf("%s: a client that went away is carried", name)
		}
		_ = server.SetDeadline(time.Now().Add(time.Minute))
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("%s: the connection that was dialled: %v; expected its end", name, err)
		}
		server.Close()
		from.Close()
	}
}

// The check of a password may wait for other checks. After the check, the client has its full
// time for the rest of its request.
func TestTheTimeOfARequestBeginsAnewBehindItsCheck(t *testing.T) {
	u := usersOf(t, true)
	synctest.Test(t, func(t *testing.T) {
		u.checks = make(chan struct{}, 1) // made in this bubble; no check may begin yet
		client, from := net.Pipe()
		defer client.Close()
		defer from.Close()
		go func() {
			_, _ = io.WriteString(client, "\x05\x01\x02")
			_, _ = io.ReadFull(client, make([]byte, 2))
			_, _ = io.WriteString(client, "\x01\x05alice\x0bopen sesame")
			time.Sleep(limits.HandshakeWithin * 3 / 4)
			u.checks <- struct{}{}
			_, _ = io.ReadFull(client, make([]byte, 2))
			time.Sleep(limits.HandshakeWithin * 3 / 4)
			_, _ = io.WriteString(client, toService)
			_, _ = io.ReadFull(client, make([]byte, len(granted)))
		}()
		dial := asked(u, func(context.Context, string, uint16) (net.Conn, error) { return end(t), nil })
		if _, err := dial(t.Context(), from); err != nil {
			t.Errorf("a request that comes in time behind a slow check: %v", err)
		}
	})
}

// A proxy keeps the last turn of a source until it is over. Then it keeps nothing about the
// source.
func TestTurnsThatAreOverAreForgotten(t *testing.T) {
	var o turns
	w := new(Way)
	at := func(host string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(host), Port: 1} }
	first, second, other := o.take(w, at("192.0.2.1")), o.take(w, at("192.0.2.1")), o.take(w, at("192.0.2.2"))
	first.pass()
	first.pass()
	third := o.take(w, at("192.0.2.1"))
	if third.before != second {
		t.Error("behind the first turn, the third does not wait for the second")
	}
	for _, turn := range []*turn{second, third, other} {
		turn.pass()
	}
	if len(o.last) != 0 {
		t.Errorf("%d sources are kept behind their last turns; expected none", len(o.last))
	}
}

// halfway is a connection that can end its sending direction separately.
type halfway struct{ net.Conn }

func (halfway) CloseWrite() error { return nil }

// A client that reads the reason of its refusal has limited time to end, whether it is silent or
// continues to send.
func TestARefusedClientEndsInTimeAndWithinBounds(t *testing.T) {
	for name, says := range map[string]int{"that says nothing": 0, "that floods": 2 * mostDiscarded} {
		synctest.Test(t, func(t *testing.T) {
			client, from := net.Pipe()
			defer client.Close()
			said := make(chan int, 1)
			go func() {
				n, _ := client.Write(make([]byte, says))
				said <- n
			}()
			begun := time.Now()
			closeTold(t.Context(), halfway{from})
			if took := time.Since(begun); took > discardWithin {
				t.Errorf("a client %s ends after %v; expected %v at most", name, took, discardWithin)
			}
			if _, err := from.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("a client %s: its connection says %v; expected that it is closed", name, err)
			}
			if n := <-said; n > mostDiscarded {
				t.Errorf("a client %s: %d bytes were read; expected at most %d", name, n, mostDiscarded)
			}
		})
	}
}
