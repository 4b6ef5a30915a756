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
)

// A client that can ask says where its connection is to go before its first byte, by SOCKS5 (RFC 1928, without authentication) or by HTTP
// CONNECT (RFC 9110). Its first byte tells which:
//
//	0x05   methods ─► 0x05 0x00    CONNECT, host, port ─► how it went    … bytes …
//	else   CONNECT host:port HTTP/1.1, headers         ─► HTTP/1.1 200   … bytes …

// askWithin is how long a client may take to say where it wants to go, and again to take the answer, and mostAsked how many bytes of HTTP it
// may say. The dial in between takes the time that it takes.
const (
	askWithin = 10 * time.Second
	mostAsked = 8 << 10
)

// errTold is a failure that the client has been told in its own protocol: its connection ends in order.
type errTold struct{ error }

func (e errTold) Unwrap() error { return e.error }

// Asked is a Dial that asks each client where it wants to go, and has dial go there.
func Asked(dial func(ctx context.Context, host string, port uint16) (net.Conn, error)) func(ctx context.Context, from net.Conn) (net.Conn, error) {
	return func(ctx context.Context, from net.Conn) (net.Conn, error) {
		if err := from.SetDeadline(time.Now().Add(askWithin)); err != nil {
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
		host, port, answer, err := ask(from, first[0])
		if err != nil {
			return nil, err
		}
		if err := from.SetDeadline(time.Time{}); err != nil {
			return nil, err
		}
		to, err := dial(ctx, host, port)
		_ = from.SetDeadline(time.Now().Add(askWithin)) // one that is closed fails the answer
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

// Words of SOCKS5.
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
)

// askSOCKS reads what a client wants whose first byte has been read.
func askSOCKS(c net.Conn, _ byte) (host string, port uint16, answer func(error) error, err error) {
	fail := func(code byte, format string, args ...any) (string, uint16, func(error) error, error) {
		err := fmt.Errorf("SOCKS5: "+format, args...)
		return "", 0, nil, errTold{errors.Join(err, socksReply(c, code))}
	}
	var b [255]byte
	methods, err := readCounted(c, b[:])
	if err != nil {
		return "", 0, nil, err
	}
	if !bytes.Contains(methods, []byte{0}) {
		_, err := c.Write([]byte{socksVersion, socksNoMethod})
		return "", 0, nil, errTold{errors.Join(fmt.Errorf("SOCKS5: the client wants to authenticate by %v; expected that it need not (0)", methods), err)}
	}
	if _, err := c.Write([]byte{socksVersion, 0}); err != nil {
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
		return fail(socksNoAddress, "an address of type %d; expected a name (%d), since services of the fabric have no IP addresses", head[3], socksDomain)
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

// readCounted reads a byte, and then as many as it says.
func readCounted(c net.Conn, b []byte) ([]byte, error) {
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

// socksReply tells how it went. The address that the proxy dials from means nothing to a client, and is 0.0.0.0.
func socksReply(c net.Conn, code byte) error {
	_, err := c.Write([]byte{socksVersion, code, 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}

// askHTTP reads a CONNECT whose first byte has been read, and nothing behind it.
func askHTTP(c net.Conn, first byte) (host string, port uint16, answer func(error) error, err error) {
	say := func(status int, why error) error {
		text := ""
		if why != nil {
			text = why.Error() + "\n"
		}
		_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
		if why != nil && err == nil {
			_, err = fmt.Fprintf(c, "Content-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
		} else if err == nil {
			_, err = io.WriteString(c, "\r\n")
		}
		return err
	}
	fail := func(status int, err error) (string, uint16, func(error) error, error) {
		return "", 0, nil, errTold{errors.Join(err, say(status, err))}
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
		if err != nil {
			return say(http.StatusBadGateway, err)
		}
		return say(http.StatusOK, nil)
	}, nil
}

// readHead reads the line and the headers of a request, and nothing behind them: what follows is not the proxy's. One that is refused has a status.
// A line may end without a return, as in requests that are typed (RFC 9112, 2.2).
func readHead(c net.Conn, first byte) (head []byte, status int, err error) {
	head = []byte{first}
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\n\r\n")) && !bytes.HasSuffix(head, []byte("\n\n")); head = append(head, one[0]) {
		if last := head[len(head)-1]; last < ' ' && !strings.ContainsRune("\r\n\t", rune(last)) { // SOCKS4, TLS: no line would follow
			return nil, http.StatusBadRequest, noRequest(string(head))
		}
		if len(head) == mostAsked {
			return nil, http.StatusRequestHeaderFieldsTooLarge, fmt.Errorf("a request with %d bytes of headers, and more", mostAsked)
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
