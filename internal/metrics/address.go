package metrics

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/weftnet/weft/internal/limits"
)

// WantAddress describes the values of weft nic --metrics.
const WantAddress = "off, unix, unix:PATH, or HOST:PORT such as 127.0.0.1:7702, where HOST is an IP or localhost"

// Address is the address of the metrics. The zero Address is off.
type Address struct {
	Path string         // of a unix socket
	TCP  netip.AddrPort // if there is no Path
}

// ParseAddress reads the value of weft nic --metrics. An empty text is off. The word unix stands
// for a socket in the state directory.
func ParseAddress(s, stateDir string) (Address, error) {
	path, unix := strings.CutPrefix(s, "unix:")
	switch {
	case s == "" || s == "off":
		return Address{}, nil
	case s == "unix":
		return Address{Path: filepath.Join(stateDir, "metrics.sock")}, nil
	case unix && strings.HasPrefix(path, "@"):
		return Address{}, fmt.Errorf("%q: every user can connect to an abstract socket; expected unix:PATH", s)
	case unix && path != "":
		return Address{Path: path}, nil
	}
	if host, port, err := net.SplitHostPort(s); err == nil {
		switch host {
		case "localhost":
			s = net.JoinHostPort("127.0.0.1", port)
		case "":
			s = net.JoinHostPort("::", port)
		}
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil {
		return Address{}, fmt.Errorf("%q; expected %s", s, WantAddress)
	}
	return Address{TCP: at}, nil
}

// Off reports whether no metrics are served.
func (a Address) Off() bool { return a == Address{} }

// OffLoopback reports whether other hosts can reach the address.
func (a Address) OffLoopback() bool { return a.TCP.IsValid() && !a.TCP.Addr().Unmap().IsLoopback() }

func (a Address) String() string {
	switch {
	case a.Off():
		return "off"
	case a.Path != "":
		return "unix:" + a.Path
	}
	return a.TCP.String()
}

// Token is the hash of the secret that visitors by TCP must present. The zero Token means that
// there is none.
type Token struct {
	hash [sha256.Size]byte
	set  bool
}

// ParseToken reads the text of a token file: one line of letters, digits and the marks that a
// bearer token may have.
func ParseToken(text string) (Token, error) {
	text = strings.TrimRight(text, "\r\n")
	if n := len(text); n < limits.LeastToken || n > limits.MostToken {
		return Token{}, fmt.Errorf("a token of %d characters; expected one line of %d to %d, as from "+
			"head -c 32 /dev/urandom | base64", n, limits.LeastToken, limits.MostToken)
	}
	if strings.ContainsFunc(text, notOfToken) {
		return Token{}, errors.New("the token has characters that no bearer token may have; " +
			"expected one line of letters, digits and - . _ ~ + / =")
	}
	return Token{hash: sha256.Sum256([]byte(text)), set: true}, nil
}

const tokenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="

func notOfToken(r rune) bool { return !strings.ContainsRune(tokenCharacters, r) }
