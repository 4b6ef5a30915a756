package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/weftnet/weft/internal/limits"
)

// someUsers holds alice, whose password is "open sesame", and bob, whose password is "swordfish".
var someUsers = sync.OnceValue(func() string {
	text := "# who may enter\n\n"
	for user, password := range map[string]string{"alice": "open sesame", "bob": "swordfish"} {
		line, err := passwordLine(user, password, bcrypt.MinCost)
		if err != nil {
			panic(err)
		}
		text += line + "\r\n"
	}
	return text
})

// withUsers runs a proxy with someUsers in front of an echo. says sends a text and returns the
// answer, up to the word "bytes" or the end.
func withUsers(t *testing.T) (p *Proxy, u *Users, says func(text string) string) {
	t.Helper()
	u, err := parseUsers(someUsers(), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &Proxy{Listener: l, Asks: true, Log: slog.New(slog.DiscardHandler), Dial: u.Asked(func(context.Context, string, uint16) (net.Conn, error) {
		a, b := net.Pipe()
		go func() { io.Copy(b, b); b.Close() }()
		return a, nil
	})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p, u, func(text string) string {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for b := make([]byte, 4096); !strings.HasSuffix(said.String(), "bytes"); {
			n, err := c.Read(b)
			said.Write(b[:n])
			if err != nil {
				break
			}
		}
		return said.String()
	}
}

// bySOCKS and byHTTP return requests with a user and a password.
func bySOCKS(user, password string) string {
	return fmt.Sprintf("\x05\x02\x00\x02\x01%c%s%c%s\x05\x01\x00\x03\x04echo\x00\x07bytes", len(user), user, len(password), password)
}

func byHTTP(user, password string) string {
	return "CONNECT echo:7 HTTP/1.1\r\nproxy-authorization: basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n\r\nbytes"
}

func TestAUserSaysTheRightPassword(t *testing.T) {
	p, _, says := withUsers(t)
	const asked, closed = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"weft\", charset=\"UTF-8\"\r\n", "Connection: close\r\n"
	for _, c := range []struct{ what, says, want string }{
		{"SOCKS5", bySOCKS("alice", "open sesame"), "\x05\x02\x01\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00bytes"},
		{"SOCKS5 of another user", bySOCKS("bob", "swordfish"), "\x05\x02\x01\x00\x05\x00"},
		{"SOCKS5, the wrong password", bySOCKS("alice", "swordfish"), "\x05\x02\x01\x01"},
		{"SOCKS5, no password", bySOCKS("alice", ""), "\x05\x02\x01\x01"},
		{"SOCKS5, no such user", bySOCKS("carol", "open sesame"), "\x05\x02\x01\x01"},
		{"SOCKS5 without a password", "\x05\x01\x00\x05\x01\x00\x03\x04echo\x00\x07bytes", "\x05\xff"},
		{"SOCKS5 with a password of another version", "\x05\x01\x02\x02\x05alice\x0bopen sesame", "\x05\x02"},
		{"HTTP", byHTTP("alice", "open sesame"), "HTTP/1.1 200 OK\r\n\r\nbytes"},
		{"HTTP by a line without a return", strings.ReplaceAll(byHTTP("bob", "swordfish"), "\r", ""), "HTTP/1.1 200 OK\r\n\r\nbytes"},
		{"HTTP, the wrong password", byHTTP("bob", "open sesame"), asked},
		{"HTTP without a password", "CONNECT echo:7 HTTP/1.1\r\n\r\n", asked},
		{"HTTP by another scheme", "CONNECT echo:7 HTTP/1.1\r\nProxy-Authorization: Bearer YTpi\r\n\r\n", asked},
		{"HTTP, no base64", "CONNECT echo:7 HTTP/1.1\r\nProxy-Authorization: Basic !!\r\n\r\n", asked},
		{"another method, without a password", "GET http://echo:7/ HTTP/1.1\r\n\r\n", asked},
	} {
		got := says(c.says)
		if !strings.HasPrefix(got, c.want) || c.want == asked && !strings.Contains(got, closed) {
			t.Errorf("%s: the proxy says %q; want %q", c.what, got, c.want)
		}
		if strings.Contains(got, "sesame") {
			t.Errorf("%s: the proxy repeats the password: %q", c.what, got)
		}
	}
	if c := p.Counts(); c.Wrong != 4 || c.Unchecked != 0 {
		t.Errorf("it counts %+v; want 4 wrong ones", c)
	}
}

// The proxy refuses further guesses without a check. A user whose password was correct before is
// still admitted.
func TestGuessesAreBoundedAndCounted(t *testing.T) {
	p, u, says := withUsers(t)
	u.tries.Every = time.Hour
	if got := says(byHTTP("bob", "swordfish")); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Fatalf("bob reads %q", got)
	}
	for i := range limits.PasswordTries {
		if got := says(byHTTP("alice", fmt.Sprint("guess ", i))); !strings.HasPrefix(got, "HTTP/1.1 407 ") {
			t.Fatalf("guess %d: %q", i, got)
		}
	}
	for i := range 20 {
		if got := says(byHTTP("alice", fmt.Sprint("guess ", i))); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
			t.Fatalf("guess %d beyond all that may be made: %q", i, got)
		}
	}
	if got := says(byHTTP("bob", "swordfish")); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("bob, who was right before, reads %q", got)
	}
	if got := says(byHTTP("bob", "swordfish2")); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("a guess at bob's password reads %q", got)
	}
	if c := p.Counts(); c.Wrong != limits.PasswordTries || c.Unchecked != 21 {
		t.Errorf("it counts %+v; want %d wrong ones and 21 that were not checked", c, limits.PasswordTries)
	}
}

// Correct passwords do not count as tries.
func TestRightPasswordsAreNoGuesses(t *testing.T) {
	_, u, says := withUsers(t)
	u.tries.Every = time.Hour
	for range 3 * limits.PasswordTries {
		if got := says(bySOCKS("alice", "open sesame")); !strings.HasSuffix(got, "bytes") {
			t.Fatalf("alice reads %q", got)
		}
	}
}

// Both the concurrent checks and the waiting clients are limited.
func TestChecksAreBoundedInNumber(t *testing.T) {
	u, err := parseUsers(someUsers(), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for range limits.PasswordChecks { // all checks are taken
		<-u.checks
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan error, 100)
	for range cap(results) {
		go func() { _, err := u.compare(ctx, u.nobody, "x"); results <- err }()
	}
	unchecked := cap(results) - limits.PasswordChecks - limits.PasswordsWaiting
	for range unchecked {
		if err := <-results; !errors.Is(err, errUnchecked) {
			t.Fatalf("a check that may not wait ends with %v", err)
		}
	}
	cancel()
	for range cap(results) - unchecked {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("a check that waits ends with %v when the proxy does", err)
		}
	}
}

// bcrypt reads only 72 bytes. A longer password that begins with a correct one is wrong.
func TestBytesBehindAPasswordCount(t *testing.T) {
	long := strings.Repeat("p", longestPassword)
	line, err := passwordLine("alice", long, bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	u, err := parseUsers(line, bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	from, other := net.Pipe()
	defer from.Close()
	defer other.Close()
	for password, want := range map[string]error{long: nil, long + "x": errWrong, long[1:]: errWrong} {
		if err := u.check(t.Context(), from, credentials{"alice", password}); err != want {
			t.Errorf("a password of %d bytes: %v; want %v", len(password), err, want)
		}
	}
	if _, err := PasswordLine("alice", long+"x"); err == nil {
		t.Error("a password of which bcrypt ignores a byte got a hash")
	}
}

func TestAFileOfUsersThatIsWrongSaysWhere(t *testing.T) {
	hash := func(cost string) string { return "$2a$" + cost + "$" + strings.Repeat("a", 53) }
	for text, want := range map[string]string{
		"":                                      "there is no user; expected lines USER:HASH",
		"# nobody\n":                            "there is no user",
		"alice":                                 "line 1 has no colon; expected USER:HASH",
		"\n:" + hash("10"):                      "line 2: the name of a user has 0 bytes",
		"a\x01:" + hash("10"):                   `line 1: "a\x01" is not the name of a user`,
		"a:" + hash("10") + "\na:x":             `line 2: user "a" has a line already`,
		"a:secret":                              `line 1: user "a": the hash is not one of bcrypt`,
		"a:$apr1$x$y":                           `line 1: user "a": the hash is not one of bcrypt`,
		"a:" + hash("05"):                       `line 1: user "a": the hash has cost 5; expected 10 to 14`,
		"a:" + hash("31"):                       `line 1: user "a": the hash has cost 31; expected 10 to 14`,
		"a:" + hash("10") + "b":                 `line 1: user "a": the hash is not whole`,
		"a:" + hash("10")[:59] + " ":            `line 1: user "a": the hash is not whole`,
		"a:" + hash("10") + "\nb:" + hash("11"): "line 2: the hash has cost 11 and that of line 1 has cost 10; expected one cost",
	} {
		_, err := ParseUsers(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats what may be a password: %v", text, err)
		}
	}
}

func FuzzUsers(f *testing.F) {
	f.Add("alice:$2a$10$" + strings.Repeat("a", 53))
	f.Add("# x\r\n\r\nalice:$2y$14$" + strings.Repeat("/", 53) + "\r\nbob:")
	f.Fuzz(func(t *testing.T, text string) {
		// High costs take long.
		text = strings.NewReplacer("$11$", "$10$", "$12$", "$10$", "$13$", "$10$", "$14$", "$10$").Replace(text)
		u, err := ParseUsers(text)
		if err != nil {
			return
		}
		if len(u.users) == 0 || u.nobody == nil {
			t.Errorf("%q: %+v without an error", text, u)
		}
		for name := range u.users {
			if checkUser(name) != nil || !strings.Contains(text, name+":") {
				t.Errorf("%q: user %q", text, name)
			}
		}
	})
}

func FuzzBasic(f *testing.F) {
	f.Add([]byte("CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n\r\n"))
	f.Add([]byte("CONNECT a:1 HTTP/1.1\nproxy-authorization:basic  YTpi \nPROXY-AUTHORIZATION: x\n\n"))
	f.Add([]byte("Proxy-Authorization: Basic YTpi\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		said, err := basic(head)
		if err != nil {
			if said != (credentials{}) {
				t.Errorf("%q: %v, and yet %+v", head, err, said)
			}
			return
		}
		token := base64.StdEncoding.EncodeToString([]byte(said.user + ":" + said.password))
		if strings.Contains(said.user, ":") || !strings.Contains(string(head), token) {
			t.Errorf("%q has %+v", head, said)
		}
	})
}

// No input without a correct password is admitted, and each connection ends.
func FuzzAuthentication(f *testing.F) {
	u, err := parseUsers(someUsers(), bcrypt.MinCost)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(bySOCKS("alice", "wrong")))
	f.Add([]byte(byHTTP("bob", "wrong")))
	f.Add([]byte("\x05\x01\x02\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, from := net.Pipe()
		dial := u.Asked(func(context.Context, string, uint16) (net.Conn, error) {
			t.Errorf("%q gets a client in", b)
			return nil, errors.New("not here")
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, err := dial(t.Context(), from); err == nil {
				t.Errorf("%q: no error", b)
			}
			from.Close()
		}()
		go io.Copy(io.Discard, client)
		_, _ = client.Write(b)
		client.Close()
		<-ended
	})
}

// Every truncated prefix of an authentication is an error.
func TestPrefixesOfAuthenticationGetNobodyIn(t *testing.T) {
	for _, whole := range []string{"\x01\x05alice\x0bopen sesame"} {
		for i := range len(whole) {
			if said, err := readCredentials(strings.NewReader(whole[:i])); err == nil {
				t.Errorf("%q is read as %+v", whole[:i], said)
			}
		}
		if said, err := readCredentials(strings.NewReader(whole)); err != nil || said != (credentials{"alice", "open sesame"}) {
			t.Errorf("%q is read as %+v, %v", whole, said, err)
		}
	}
}
