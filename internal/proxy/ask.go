package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// A client that can ask names the destination of its connection before its first byte, by SOCKS5
// (RFC 1928) or by HTTP CONNECT (RFC 9110). The first byte of the request shows the protocol:
//
//	0x05   methods ─► 0x05 0x00    CONNECT, host, port ─► the result     … bytes …
//	else   CONNECT host:port HTTP/1.1, headers         ─► HTTP/1.1 200   … bytes …
//
// If there are Users, SOCKS5 has two more messages (RFC 1929), and HTTP has one more header
// (basic.go):
//
//	0x05   methods ─► 0x05 0x02    0x01, user, password ─► 0x01 0x00    CONNECT, …
//
// The client has limits.HandshakeWithin for its request, and the same time again to read the
// answer. The dial in between has its own time.

// mostAsked is the maximum length of a client's HTTP request, in bytes.
const mostAsked = 8 << 10

// errTold is a failure that the client has been told in its own protocol. Its connection ends in
// order.
type errTold struct{ error }

func (e errTold) Unwrap() error { return e.error }

// Asked returns a Dial that reads the destination from each client, and calls dial. It is for a
// Proxy that Asks.
func Asked(dial func(ctx context.Context, host string, port uint16) (net.Conn, error)) func(ctx context.Context,
	from net.Conn) (net.Conn, error) {
	return asked(nil, dial)
}

// Asked is [Asked] for clients that authenticate as one of the Users.
func (u *Users) Asked(dial func(ctx context.Context, host string, port uint16) (net.Conn,
	error)) func(ctx context.Context, from net.Conn) (net.Conn, error) {
	return asked(u, dial)
}

// asked is Asked; u is nil if there are no Users.
func asked(u *Users, dial func(ctx context.Context, host string, port uint16) (net.Conn,
	error)) func(ctx context.Context, from net.Conn) (net.Conn, error) {
	return func(ctx context.Context, from net.Conn) (net.Conn, error) {
		if err := from.SetDeadline(time.Now().Add(limits.HandshakeWithin)); err != nil {
			return nil, err
		}
		var first [1]byte
		if _, err := io.ReadFull(from, first[:]); err != nil {
			return nil, fmt.Errorf("before it has said where to go: %w", err)
		}
		ask := askHTTP
		if first[0] == socksVersion {
			ask = askSOCKS
		}
		host, port, answer, err := ask(ctx, u, from, first[0])
		if err != nil {
			return nil, err
		}
		if err := admit(ctx); err != nil {
			_ = answer(err) // fails if the client gave way
			return nil, errTold{err}
		}
		if err := from.SetDeadline(time.Time{}); err != nil {
			return nil, err
		}
		to, err := dial(ctx, host, port)
		// If the client is closed, the answer fails.
		_ = from.SetDeadline(time.Now().Add(limits.HandshakeWithin))
		if told := answer(err); told != nil && err == nil {
			to.Close()
			return nil, told
		}
		if err != nil {
			return nil, errTold{err}
		}
		if err := from.SetDeadline(time.Time{}); err != nil {
			to.Close()
			return nil, err
		}
		return to, nil
	}
}

// Values of SOCKS5.
const (
	socksVersion = 5
	socksConnect = 1
	socksDomain  = 3

	socksGranted     = 0
	socksFailed      = 1
	socksUnreachable = 4
	socksRefused     = 5
	socksNoCommand   = 7
	socksNoAddress   = 8
	socksNoMethod    = 0xff

	socksOpen     = 0 // methods of authentication: none, and by user and password
	socksPassword = 2

	passwordVersion = 1 // version of RFC 1929
	passwordRight   = 0
	passwordWrong   = 1
)

// askSOCKS reads the request of a client whose first byte has been read.
func askSOCKS(ctx context.Context, u *Users, c net.Conn, _ byte) (host string, port uint16, answer func(error) error,
	err error) {
	fail := func(code byte, format string, args ...any) (string, uint16, func(error) error, error) {
		err := fmt.Errorf("SOCKS5: "+format, args...)
		return "", 0, nil, errTold{errors.Join(err, socksReply(c, code))}
	}
	var b [255]byte
	if err := authSOCKS(ctx, u, c); err != nil {
		return "", 0, nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", 0, nil, err
	}
	switch {
	case head[0] != socksVersion:
		return fail(socksFailed, "a request of version %d", head[0])
	case head[1] != socksConnect:
		return fail(socksNoCommand, "command %d; expected CONNECT (%d)", head[1], socksConnect)
	case head[3] != socksDomain:
		return fail(socksNoAddress,
			"an address of type %d; expected a name (%d), since services of the fabric have no IP addresses",
			head[3], socksDomain)
	}
	name, err := readCounted(c, b[:])
	if err != nil {
		return "", 0, nil, err
	}
	host = string(name)
	if _, err := io.ReadFull(c, head[:2]); err != nil {
		return "", 0, nil, err
	}
	return host, binary.BigEndian.Uint16(head[:2]), func(err error) error { return socksReply(c, socksCode(err)) }, nil
}

// authSOCKS negotiates the method of authentication. With Users, it checks the user and the
// password.
func authSOCKS(ctx context.Context, u *Users, c net.Conn) error {
	var b [255]byte
	methods, err := readCounted(c, b[:])
	if err != nil {
		return err
	}
	method, expected := byte(socksOpen), "that it need not (0)"
	if u != nil {
		method, expected = socksPassword, "a user and a password (2)"
	}
	if !bytes.Contains(methods, []byte{method}) {
		_, err := c.Write([]byte{socksVersion, socksNoMethod})
		return errTold{errors.Join(fmt.Errorf("SOCKS5: the client wants to authenticate by %v; expected %s", methods,
			expected), err)}
	}
	if _, err := c.Write([]byte{socksVersion, method}); err != nil || u == nil {
		return err
	}
	said, err := readCredentials(c)
	if err != nil {
		return err
	}
	if err := u.check(ctx, c, said); err != nil {
		_, told := c.Write([]byte{passwordVersion, passwordWrong})
		return errTold{errors.Join(fmt.Errorf("SOCKS5: %w", err), told)}
	}
	// The check took time.
	if err := c.SetDeadline(time.Now().Add(limits.HandshakeWithin)); err != nil {
		return err
	}
	_, err = c.Write([]byte{passwordVersion, passwordRight})
	return err
}

// readCredentials reads a user and a password (RFC 1929).
func readCredentials(c io.Reader) (said credentials, err error) {
	var b [255]byte
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return said, err
	}
	if b[0] != passwordVersion {
		return said, fmt.Errorf("SOCKS5: an authentication of version %d; expected %d", b[0], passwordVersion)
	}
	user, err := readCounted(c, b[:])
	if err != nil {
		return said, err
	}
	said.user = string(user)
	password, err := readCounted(c, b[:])
	said.password = string(password)
	return said, err
}

// readCounted reads a byte, and then as many bytes as its value.
func readCounted(c io.Reader, b []byte) ([]byte, error) {
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return nil, err
	}
	b = b[:b[0]]
	_, err := io.ReadFull(c, b)
	return b, err
}

func socksCode(err error) byte {
	switch {
	case err == nil:
		return socksGranted
	case errors.Is(err, syscall.ECONNREFUSED):
		return socksRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, context.DeadlineExceeded):
		return socksUnreachable
	}
	return socksFailed
}

// socksReply sends the result. The address from which the proxy dials means nothing to a client,
// so it is 0.0.0.0.
func socksReply(c net.Conn, code byte) error {
	_, err := c.Write([]byte{socksVersion, code, 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}

// askHTTP reads a CONNECT whose first byte has been read, and no byte after it.
func askHTTP(ctx context.Context, u *Users, c net.Conn, first byte) (host string, port uint16,
	answer func(error) error, err error) {
	fail := func(status int, err error) (string, uint16, func(error) error, error) {
		return "", 0, nil, errTold{errors.Join(err, sayHTTP(c, status, err))}
	}
	head, status, err := readHead(c, first)
	switch {
	case status != 0:
		return fail(status, err)
	case err != nil:
		return "", 0, nil, fmt.Errorf("HTTP CONNECT: %w", err)
	}
	line, _, _ := strings.Cut(string(head), "\n")
	line = strings.TrimSuffix(line, "\r")
	method, rest, _ := strings.Cut(line, " ")
	target, version, ok := strings.Cut(rest, " ")
	switch {
	case !ok || !strings.HasPrefix(version, "HTTP/1."):
		return fail(http.StatusBadRequest, noRequest(line))
	}
	if status, err := authHTTP(ctx, u, c, head); err != nil {
		return fail(status, err)
	}
	switch {
	case method != http.MethodConnect:
		return fail(http.StatusMethodNotAllowed, fmt.Errorf("%s of %s; expected CONNECT", method, target))
	}
	host, text, err := net.SplitHostPort(target)
	if err != nil {
		return fail(http.StatusBadRequest, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fail(http.StatusBadRequest, fmt.Errorf("port %q of %s; expected a number to 65535", text, target))
	}
	return host, uint16(n), func(err error) error {
		switch {
		case errors.Is(err, errFull):
			return sayHTTP(c, http.StatusServiceUnavailable, err)
		case err != nil:
			return sayHTTP(c, http.StatusBadGateway, err)
		}
		return sayHTTP(c, http.StatusOK, nil)
	}, nil
}

// authHTTP checks the user and the password of a request if there are Users. status is the status
// of the answer to an error.
func authHTTP(ctx context.Context, u *Users, c net.Conn, head []byte) (status int, err error) {
	if u == nil {
		return 0, nil
	}
	said, err := basic(head)
	if err == nil {
		err = u.check(ctx, c, said)
	}
	switch {
	case errors.Is(err, errFull), errors.Is(err, errUnchecked):
		return http.StatusServiceUnavailable, err
	case err != nil:
		return http.StatusProxyAuthRequired, err
	}
	return 0, c.SetDeadline(time.Now().Add(limits.HandshakeWithin)) // the check took time
}

// sayHTTP answers a request with a status. If why is not nil, it is the body.
func sayHTTP(c net.Conn, status int, why error) error {
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	if status == http.StatusProxyAuthRequired {
		head += challenge
	}
	text := ""
	if why != nil {
		text = why.Error() + "\n"
		head += fmt.Sprintf("Content-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n", len(text))
	}
	_, err := io.WriteString(c, head+"\r\n"+text)
	return err
}

// readHead reads the line and the headers of a request, and no byte after them, because the
// following bytes are not for the proxy. If the request is refused, status is not 0. A line may
// end without a carriage return, as in requests that a person types (RFC 9112, 2.2).
func readHead(c net.Conn, first byte) (head []byte, status int, err error) {
	head = []byte{first}
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\n\r\n")) &&
		!bytes.HasSuffix(head, []byte("\n\n")); head = append(head, one[0]) {
		// SOCKS4 or TLS: no line would follow.
		if last := head[len(head)-1]; last < ' ' && !strings.ContainsRune("\r\n\t", rune(last)) {
			return nil, http.StatusBadRequest, noRequest(string(head))
		}
		if len(head) == mostAsked {
			return nil, http.StatusRequestHeaderFieldsTooLarge,
				fmt.Errorf("a request with %d bytes of headers, and more", mostAsked)
		}
		if _, err := io.ReadFull(c, one); err != nil {
			return nil, 0, err
		}
	}
	return head, 0, nil
}

func noRequest(said string) error {
	return fmt.Errorf("%.40q is no request; expected CONNECT HOST:PORT HTTP/1.1, or SOCKS5", said)
}
