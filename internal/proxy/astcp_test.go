package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// half is a connection whose two directions can end separately: TCP, or a unix socket.
type half interface {
	net.Conn
	CloseWrite() error
}

// scenes lists exchanges of two programs over a connection. Through proxies, each program must
// see what it sees over TCP without proxies.
var scenes = []struct {
	name   string
	resets bool                // unix sockets report less of them
	client func(c half) string // returns what the client has seen
	server func(c half) string
}{
	{"the server ends its direction first", false, func(c half) string {
		got, err := io.ReadAll(c)
		n, failed := c.Write(make([]byte, 3<<20))
		return fmt.Sprint(len(got), err, n, failed, c.Close())
	}, func(c half) string {
		_, failed := c.Write(make([]byte, 5000))
		ended := c.CloseWrite()
		got, err := io.ReadAll(c)
		return fmt.Sprint(failed, ended, len(got), err, c.Close())
	}},
	{"the client asks, ends and reads", false, func(c half) string {
		_, failed := c.Write(make([]byte, 3<<20))
		ended := c.CloseWrite()
		got, err := io.ReadAll(c)
		return fmt.Sprint(failed, ended, len(got), err, c.Close())
	}, func(c half) string {
		got, err := io.ReadAll(c)
		n, failed := c.Write(make([]byte, 3<<20))
		return fmt.Sprint(len(got), err, n, failed, c.Close())
	}},
	{"the client writes and closes at once", false, func(c half) string {
		n, failed := c.Write(make([]byte, 100_000))
		return fmt.Sprint(n, failed, c.Close())
	}, func(c half) string {
		got, err := io.ReadAll(c)
		return fmt.Sprint(len(got), err)
	}},
	{"both ends write much at once, and then end", false, func(c half) string {
		return much(c)
	}, func(c half) string {
		return much(c)
	}},
	{"the client closes behind much that the server reads late", false, func(c half) string {
		n, failed := c.Write(make([]byte, 150_000))
		return fmt.Sprint(n, failed, c.Close())
	}, func(c half) string {
		time.Sleep(20 * time.Millisecond)
		got, err := io.ReadAll(c)
		return fmt.Sprint(len(got), err)
	}},
	{"the client says nothing", false, func(c half) string { return fmt.Sprint(c.Close()) }, func(c half) string {
		n, err := c.Read(make([]byte, 1))
		return fmt.Sprint(n, err)
	}},
	{"the server says nothing", false, func(c half) string {
		n, err := c.Read(make([]byte, 1))
		return fmt.Sprint(n, err)
	}, func(c half) string { return fmt.Sprint(c.Close()) }},
	{"many questions and answers", false, func(c half) string {
		b := make([]byte, 100)
		for k := range 100 {
			if _, err := c.Write(b[:1+k%100]); err != nil {
				return err.Error()
			}
			if _, err := io.ReadFull(c, b[:1+k%100]); err != nil {
				return err.Error()
			}
		}
		return fmt.Sprint(c.CloseWrite())
	}, func(c half) string {
		n, err := io.Copy(c, c)
		return fmt.Sprint(n, err)
	}},
	{"the server is reset, with nothing under way", true, func(c half) string {
		_, failed := c.Write([]byte("question"))
		n, err := c.Read(make([]byte, 1))
		return fmt.Sprint(failed, n, seen(err))
	}, func(c half) string {
		n, err := io.ReadFull(c, make([]byte, 8))
		c.(*net.TCPConn).SetLinger(0)
		return fmt.Sprint(n, err, c.Close())
	}},
	{"the server ends, the client is reset behind it", true, func(c half) string {
		_, failed := c.Write([]byte("question"))
		got, err := io.ReadAll(c)
		c.(*net.TCPConn).SetLinger(0)
		return fmt.Sprint(failed, string(got), err, c.Close())
	}, func(c half) string {
		n, err := io.ReadFull(c, make([]byte, 8))
		_, failed := c.Write([]byte("answer"))
		ended := c.CloseWrite()
		m, reset := c.Read(make([]byte, 1))
		return fmt.Sprint(n, err, failed, ended, m, seen(reset))
	}},
	{"the client ends, the server is reset behind it", true, func(c half) string {
		_, failed := c.Write([]byte("question"))
		ended := c.CloseWrite()
		m, reset := c.Read(make([]byte, 1))
		return fmt.Sprint(failed, ended, m, seen(reset))
	}, func(c half) string {
		got, err := io.ReadAll(c)
		c.(*net.TCPConn).SetLinger(0)
		return fmt.Sprint(string(got), err, c.Close())
	}},
	{"the client is reset", true, func(c half) string {
		_, failed := c.Write([]byte("question"))
		n, err := io.ReadFull(c, make([]byte, 1))
		c.(*net.TCPConn).SetLinger(0)
		return fmt.Sprint(failed, n, err, c.Close())
	}, func(c half) string {
		got, err := io.ReadFull(c, make([]byte, 8))
		_, failed := c.Write([]byte{0})
		n, reset := c.Read(make([]byte, 1))
		return fmt.Sprint(got, err, failed, n, seen(reset))
	}},
	{"the server answers, and closes with bytes unread", true, func(c half) string {
		_, failed := c.Write([]byte("question"))
		got, err := io.ReadAll(c)
		return fmt.Sprint(failed, string(got), seen(err))
	}, func(c half) string {
		n, err := io.ReadFull(c, make([]byte, 7))
		_, failed := c.Write([]byte("answer"))
		return fmt.Sprint(n, err, failed, c.Close())
	}},
	{"the server answers and closes, while the client goes on writing", true, func(c half) string {
		_, failed := c.Write([]byte("question"))
		var err error
		for err == nil {
			_, err = c.Write(make([]byte, 10_000))
			time.Sleep(time.Millisecond)
		}
		got, end := io.ReadAll(c)
		return fmt.Sprint(failed, broken(err), string(got), seen(end))
	}, func(c half) string {
		n, err := io.ReadFull(c, make([]byte, 8))
		_, failed := c.Write([]byte("answer"))
		return fmt.Sprint(n, err, failed, c.Close())
	}},
}

func seen(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	}
	return fmt.Sprint(err)
}

func broken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// much writes much data and reads as much, concurrently.
func much(c half) string {
	wrote := make(chan string, 1)
	go func() {
		n, err := c.Write(make([]byte, 4<<20))
		wrote <- fmt.Sprint(n, err, c.CloseWrite())
	}()
	got, err := io.Copy(io.Discard, c)
	return fmt.Sprint(got, err, <-wrote)
}

func TestProgramsSeeWhatTheySeeOverTCP(t *testing.T) {
	server := listen(t)
	address, _, _, _ := tunnel(t, server, patience)
	play(t, server, address, true)
}

func TestProgramsSeeWhatTheySeeOverUnixSockets(t *testing.T) {
	var l [2]net.Listener
	for i := range l {
		var err error
		if l[i], err = net.Listen("unix", filepath.Join(t.TempDir(), "a.sock")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l[i].Close() })
	}
	address, _, _, _ := tunnelFrom(t, l[0], l[1], patience)
	play(t, l[1], address, false)
}

// play plays the scenes between a server and its clients, directly and through the address of a
// proxy.
func play(t *testing.T, server net.Listener, proxied string, resets bool) {
	t.Helper()
	for _, scene := range scenes {
		if scene.resets && !resets {
			continue
		}
		once := func(address string) string {
			saw := make(chan string, 1)
			go func() {
				c, err := server.Accept()
				if err != nil {
					saw <- err.Error()
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				saw <- scene.server(c.(half))
			}()
			c, err := net.Dial(server.Addr().Network(), address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			client := scene.client(c.(half))
			c.Close()
			return "client " + client + "; server " + <-saw
		}
		for range 5 {
			if want, got := once(server.Addr().String()), once(proxied); got != want {
				t.Errorf("%s:\n- %s\n+ %s", scene.name, want, got)
			}
		}
	}
}
