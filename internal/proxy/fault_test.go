package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/proxy"
)

// Both directions fail when one side resets. The log shows the first failure, not its
// consequences.
func TestTheLogOfAnAbortedConnectionHasOneCauseAndItsSide(t *testing.T) {
	for by, abort := range map[string]func(client, server net.Conn, interrupt func()){
		"by=from err=\"read: connection reset by peer\"": func(client, _ net.Conn, _ func()) { client.(*net.TCPConn).SetLinger(0); client.Close() },
		"by=to err=\"read: connection reset by peer\"":   func(_, server net.Conn, _ func()) { server.(*net.TCPConn).SetLinger(0); server.Close() },
		"by=proxy err=\"the proxy ends, and the time of its drain is over\"": func(_, _ net.Conn, interrupt func()) {
			interrupt()
		},
	} {
		back := listen(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		p := &proxy.Proxy{Listener: l, Log: slog.New(slog.NewTextHandler(&log, nil)), Dial: func(ctx context.Context, _ net.Conn) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", back.Addr().String())
		}}
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		client := dial(t, l.Addr().String())
		server, err := back.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		abort(client, server, interrupt)
		_, _ = io.Copy(io.Discard, client)
		_, _ = io.Copy(io.Discard, server)
		interrupt()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		server.Close()
		if text := log.String(); strings.Count(text, "msg=reset") != 1 || !strings.Contains(text, by) || strings.Contains(text, "closed network connection") {
			t.Errorf("the log is %q; expected one line with %s", text, by)
		}
	}
}
