package proxy

import (
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/weftnet/weft/internal/limits"
)

// Each limit of a name, a password and a hash applies exactly: the test tries the limit and the
// values next to it.
func TestNamesPasswordsAndHashesHaveTheirBounds(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "": false, strings.Repeat("x", 255): true, strings.Repeat("x", 256): false, "with space": true, "ä": true,
		"a:b": false, "\x1f": false, "\x7f": false, "\xff": false,
	} {
		if err := checkUser(name); (err == nil) != ok {
			t.Errorf("the name %.10q of %d bytes: %v", name, len(name), err)
		}
	}
	for n, ok := range map[int]bool{0: false, 1: true, longestPassword: true, longestPassword + 1: false} {
		line, err := passwordLine("a", strings.Repeat("p", n), bcrypt.MinCost)
		if (err == nil) != ok || ok != strings.HasPrefix(line, "a:$2a$04$") {
			t.Errorf("a password of %d bytes: %q, %v", n, line, err)
		}
	}
	if line, err := passwordLine("a:b", "p", bcrypt.MinCost); err == nil || line != "" {
		t.Errorf("a line for a user with a colon: %q, %v", line, err)
	}
	if line, err := passwordLine("a", "p", bcrypt.MaxCost+1); err == nil || line != "" {
		t.Errorf("a line with a cost that there is not: %q, %v", line, err)
	}
	for cost, ok := range map[string]bool{"09": false, "10": true, "14": true, "15": false} {
		if n, err := costOf("$2a$"+cost+"$"+strings.Repeat("a", 53), limits.LeastPasswordCost); (err == nil) != ok || ok != (n > 0) {
			t.Errorf("a hash of cost %s: %d, %v", cost, n, err)
		}
	}
}

// weft proxy password makes hashes that weft proxy accepts.
func TestALineForAUserHasTheCostThatProxiesExpect(t *testing.T) {
	line, err := PasswordLine("alice", "open sesame")
	if err != nil {
		t.Fatal(err)
	}
	u, err := ParseUsers(line)
	if err != nil {
		t.Fatal(err)
	}
	if cost, err := bcrypt.Cost(u.users["alice"].hash); err != nil || cost != limits.PasswordCost {
		t.Errorf("the hash has cost %d, %v; expected %d", cost, err, limits.PasswordCost)
	}
}

// The check of an unknown user takes as long as that of a known one, because its hash has the
// same cost.
func TestAnUnknownUserCostsAsMuchAsAnother(t *testing.T) {
	for _, cost := range []int{bcrypt.MinCost, bcrypt.MinCost + 1} {
		line, err := passwordLine("alice", "open sesame", cost)
		if err != nil {
			t.Fatal(err)
		}
		u, err := parseUsers(line, bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := bcrypt.Cost(u.nobody.hash); err != nil || got != cost {
			t.Errorf("beside users of cost %d, the hash of an unknown one has cost %d, %v", cost, got, err)
		}
	}
}

// A check releases its place, however it ends. Only a correct password is remembered, by a tag
// that another process cannot compute.
func TestAChecksPlaceIsFreeBehindIt(t *testing.T) {
	u, other := usersOf(t, true), usersOf(t, true)
	from := end(t)
	for _, c := range []struct {
		said credentials
		want error
		good bool
	}{
		{credentials{"alice", "wrong"}, errWrong, false},
		{credentials{"carol", "open sesame"}, errWrong, false},
		{credentials{"alice", strings.Repeat("x", longestPassword+1)}, errWrong, false},
		{credentials{"alice", "open sesame"}, nil, true},
		{credentials{"alice", "wrong"}, errWrong, true},
	} {
		if err := u.check(t.Context(), from, c.said); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v; expected %v", c.said, err, c.want)
		}
		if u.waiting.used != 0 || len(u.checks) != limits.PasswordChecks {
			t.Errorf("behind %+v %d checks wait and %d may begin; expected none and %d", c.said, u.waiting.used, len(u.checks), limits.PasswordChecks)
		}
		if good := u.users["alice"].good.Load() != nil; good != c.good || u.nobody.good.Load() != nil {
			t.Errorf("behind %+v a password of alice is remembered: %v", c.said, good)
		}
	}
	if once, again := u.tag("x"), u.tag("x"); once == other.tag("x") || once == u.tag("y") || once != again {
		t.Error("the tag of a password is not a keyed hash of it")
	}
}

// Each source has its own number of tries.
func TestTheGuessesOfOneSourceKeepNoOtherOut(t *testing.T) {
	u := usersOf(t, true)
	u.tries.Every = time.Hour
	at := func(host string) net.Conn { return addressed{end(t), &net.TCPAddr{IP: net.ParseIP(host), Port: 9}} }
	guesser, other := at("192.0.2.1"), at("192.0.2.2")
	for i := range limits.PasswordTries + 1 {
		want := errWrong
		if i == limits.PasswordTries {
			want = errUnchecked
		}
		if err := u.check(t.Context(), guesser, credentials{"alice", "wrong"}); !errors.Is(err, want) {
			t.Fatalf("guess %d: %v; expected %v", i, err, want)
		}
	}
	if err := u.check(t.Context(), other, credentials{"alice", "open sesame"}); err != nil {
		t.Errorf("another source, with the right password: %v", err)
	}
}

// addressed is a connection with a given remote address.
type addressed struct {
	net.Conn
	from net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.from }

// The header with a password is parsed exactly. Otherwise its error says what is wrong without
// quoting the header.
func TestTheHeaderWithAPasswordIsReadExactly(t *testing.T) {
	token := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for head, want := range map[string]struct {
		said credentials
		err  string
	}{
		"Proxy-Authorization: Basic " + token("a:b"):                 {credentials{"a", "b"}, ""},
		"PROXY-AUTHORIZATION:\tBASIC   " + token("a:b:c") + "  ":     {credentials{"a", "b:c"}, ""},
		"X: y\r\nProxy-Authorization: Basic " + token(":") + "\r\nZ": {credentials{}, ""},
		"":                                     {err: errNoCredentials.Error()},
		"Authorization: Basic " + token("a:b"): {err: errNoCredentials.Error()},
		"Proxy-Authorization":                  {err: errNoCredentials.Error()},
		"Proxy-Authorization: Basic " + token("s:t") + "\nProxy-Authorization: Basic " + token("s:t"): {err: "two headers"},
		"Proxy-Authorization: Digest " + token("s:t"):                                                 {err: "another scheme"},
		"Proxy-Authorization: Basic c2VjcmV0":                                                         {err: "6 bytes without a colon"},
		"Proxy-Authorization: Basic c2VjcmV0O":                                                        {err: "not base64"},
		"Proxy-Authorization: Basic c2VjcmV0Og=":                                                      {err: "not base64"},
	} {
		said, err := basic([]byte("CONNECT a:1 HTTP/1.1\r\n" + head + "\r\n\r\n"))
		if said != want.said || (err == nil) != (want.err == "") || err != nil && (!strings.Contains(err.Error(), want.err) || strings.Contains(err.Error(), "c2Vj")) {
			t.Errorf("%q: %+v, %v; expected %+v, %q", head, said, err, want.said, want.err)
		}
	}
	if _, err := basic([]byte("Proxy-Authorization: Basic " + token("a:b") + "\r\n\r\n")); err != errNoCredentials {
		t.Errorf("the line of a request is taken for a header: %v", err)
	}
}
