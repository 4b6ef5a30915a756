package stream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// web is a server of package net/http, and the dial function of its clients.
type web struct {
	t      *testing.T
	listen func() net.Listener
	dial   func(ctx context.Context, l net.Listener) (net.Conn, error)
}

// serve runs a handler until the test ends, and returns a client of it.
func (w web) serve(h http.HandlerFunc, set func(*http.Server, *http.Transport)) (*http.Server, *http.Client, net.Listener) {
	l := w.listen()
	s, tr := &http.Server{Handler: h}, &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx, l) }}
	if set != nil {
		set(s, tr)
	}
	go s.Serve(l)
	w.t.Cleanup(func() { tr.CloseIdleConnections(); s.Close() })
	return s, &http.Client{Transport: tr, Timeout: time.Minute}, l
}

// slurp describes a response in a few words.
func slurp(r *http.Response, err error) string {
	if err != nil {
		return "no response: " + words(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if len(b) > 100 {
		return fmt.Sprint(r.StatusCode, len(b), r.Trailer, err)
	}
	return fmt.Sprint(r.StatusCode, string(b), r.Trailer, err)
}

const body = 5 << 20

// endless returns a body of undeclared length.
func endless() io.Reader { return io.LimitReader(zeros{}, body) }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// httpScenes are uses of package net/http beyond a request and its response.
var httpScenes = map[string]func(w web) string{
	"a chunked upload with a trailer": func(w web) string {
		_, c, _ := w.serve(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err, r.Trailer, r.TransferEncoding)
		}, nil)
		q, _ := http.NewRequest("POST", "http://weft/", endless())
		q.Trailer = http.Header{"Sum": {"7"}}
		return slurp(c.Do(q))
	},
	"100-continue, and a body": func(w web) string {
		_, c, _ := w.serve(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		}, func(_ *http.Server, tr *http.Transport) { tr.ExpectContinueTimeout = time.Minute })
		q, _ := http.NewRequest("POST", "http://weft/", endless())
		q.Header.Set("Expect", "100-continue")
		return slurp(c.Do(q))
	},
	"100-continue, and a refusal": func(w web) string {
		_, c, _ := w.serve(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusExpectationFailed) },
			func(_ *http.Server, tr *http.Transport) { tr.ExpectContinueTimeout = time.Minute })
		q, _ := http.NewRequest("POST", "http://weft/", endless())
		q.Header.Set("Expect", "100-continue")
		return slurp(c.Do(q))
	},
	"a refusal that does not read the body": func(w web) string {
		_, c, _ := w.serve(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "too much", http.StatusRequestEntityTooLarge)
		}, nil)
		said := ""
		for range 5 {
			q, _ := http.NewRequest("POST", "http://weft/", endless())
			said += slurp(c.Do(q))
		}
		return said
	},
	"Hijack, and the ends of both directions": func(w web) string {
		_, _, l := w.serve(func(w http.ResponseWriter, r *http.Request) {
			c, b, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			got, err := io.ReadAll(b)
			fmt.Fprint(c, string(got), err)
		}, nil)
		c, err := w.dial(context.Background(), l)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: weft\r\n\r\nraw")
		b := bufio.NewReader(c)
		first, _ := b.ReadString('\n')
		io.WriteString(c, " bytes")
		c.(interface{ CloseWrite() error }).CloseWrite()
		rest, err := io.ReadAll(b)
		return fmt.Sprint(first, string(rest), err)
	},
	"Shutdown while a request is answered": func(w web) string {
		began, answer := make(chan bool), make(chan bool)
		s, c, l := w.serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/waits" {
				close(began)
				<-answer
			}
			io.WriteString(w, r.URL.Path)
		}, nil)
		said := slurp(c.Get("http://weft/quick"))
		idle, err := w.dial(context.Background(), l)
		if err != nil {
			return err.Error()
		}
		defer idle.Close()
		io.WriteString(idle, "GET /idle HTTP/1.1\r\nHost: weft\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(idle), nil)
		said += slurp(r, err)
		waits := make(chan string)
		go func() { waits <- slurp(c.Get("http://weft/waits")) }()
		<-began
		ended := make(chan error)
		go func() { ended <- s.Shutdown(context.Background()) }()
		n, err := idle.Read(make([]byte, 1))
		said += fmt.Sprint(n, err)
		_, err = w.dial(context.Background(), l)
		said += words(err)
		close(answer)
		return said + <-waits + fmt.Sprint(<-ended)
	},
	"a client that goes away cancels its request": func(w web) string {
		gone := make(chan error, 1)
		_, c, _ := w.serve(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			gone <- r.Context().Err()
		}, nil)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		q, _ := http.NewRequestWithContext(ctx, "GET", "http://weft/", nil)
		r, err := c.Do(q)
		if err != nil {
			return err.Error()
		}
		cancel()
		_, err = io.ReadAll(r.Body)
		return fmt.Sprint(err, <-gone)
	},
	"time-outs of a server": func(w web) string {
		_, _, l := w.serve(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			}
			_, err := io.ReadAll(r.Body)
			var timeout net.Error
			fmt.Fprint(w, errors.As(err, &timeout) && timeout.Timeout())
		}, func(s *http.Server, _ *http.Transport) {
			s.IdleTimeout = 100 * time.Millisecond
		})
		said := ""
		for _, request := range []string{"POST / HTTP/1.1\r\nHost: weft\r\nContent-Length: 5\r\n\r\nab", "GET / HTTP/1.1\r\nHost: weft\r\n\r\n"} {
			c, err := w.dial(context.Background(), l)
			if err != nil {
				return err.Error()
			}
			io.WriteString(c, request)
			got, err := io.ReadAll(c)
			_, text, _ := strings.Cut(string(got), "\r\n\r\n")
			said += fmt.Sprintf("%.15q %q %v ", got, text, err)
			c.Close()
		}
		return said
	},
	"a slow reader of HTTP 2 beside others": func(w web) string {
		_, c, _ := w.serve(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, endless()) }, func(s *http.Server, tr *http.Transport) {
			s.Protocols, tr.Protocols = new(http.Protocols), new(http.Protocols)
			s.Protocols.SetUnencryptedHTTP2(true)
			tr.Protocols.SetUnencryptedHTTP2(true)
		})
		slow, err := c.Get("http://weft/slow")
		if err != nil {
			return err.Error()
		}
		var wg sync.WaitGroup
		said := make([]string, 4)
		for k := range said {
			wg.Go(func() { said[k] = slurp(c.Get("http://weft/quick")) })
		}
		wg.Wait()
		return strings.Join(said, " ") + slurp(slow, nil) + slow.Proto
	},
}

// tlsScenes are ways in which connections of package crypto/tls end. Each side reports its view.
var tlsScenes = map[string]struct{ client, server func(c *tls.Conn) string }{
	"a close_notify": {
		func(c *tls.Conn) string { _, err := io.WriteString(c, "all"); return fmt.Sprint(err, c.Close()) },
		func(c *tls.Conn) string {
			got, err := io.ReadAll(c)
			_ = c.Close() // its alert fails if the client's Close has arrived: a stream knows of that, TCP does not
			return fmt.Sprint(string(got), err)
		},
	},
	"a close_notify of one direction": {
		func(c *tls.Conn) string {
			io.WriteString(c, "question")
			ended := c.CloseWrite()
			got, err := io.ReadAll(c)
			return fmt.Sprint(ended, string(got), err, c.Close())
		},
		func(c *tls.Conn) string {
			got, err := io.ReadAll(c)
			_, failed := c.Write(make([]byte, 100))
			return fmt.Sprint(string(got), err, failed, c.Close())
		},
	},
	"no close_notify": {
		func(c *tls.Conn) string {
			_, err := io.WriteString(c, "part")
			return fmt.Sprint(err, c.NetConn().Close())
		},
		func(c *tls.Conn) string { got, err := io.ReadAll(c); return fmt.Sprint(string(got), err) },
	},
	"closed with much unread": {
		func(c *tls.Conn) string {
			_, err := c.Write(make([]byte, 64<<20))
			return fmt.Sprint(broken(err), c.Close() != nil)
		},
		func(c *tls.Conn) string {
			n, err := io.ReadFull(c, make([]byte, 1))
			return fmt.Sprint(n, err, c.Close())
		},
	},
}

// Programs for net/http and crypto/tls see the same over streams as over TCP.
func TestHTTPAndTLSSeeWhatTheySeeOverTCP(t *testing.T) {
	a, b := pair(t, weft.Config{Link: weft.UDP("127.0.0.1:0")})
	services := 0
	grounds := map[string]func(t *testing.T) web{
		"TCP": func(t *testing.T) web {
			return web{t, func() net.Listener {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				return l
			}, func(ctx context.Context, l net.Listener) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
			}}
		},
		"streams": func(t *testing.T) web {
			return web{t, func() net.Listener {
				services++
				l, err := stream.Listen(a, fmt.Sprint(services))
				if err != nil {
					t.Fatal(err)
				}
				return l
			}, func(ctx context.Context, l net.Listener) (net.Conn, error) {
				return (&stream.Dialer{Process: b}).DialContext(ctx, "", l.Addr().String())
			}}
		},
	}
	for name, scene := range httpScenes {
		t.Run(name, func(t *testing.T) {
			if want, got := scene(grounds["TCP"](t)), scene(grounds["streams"](t)); got != want {
				t.Errorf("\n- %s\n+ %s", want, got)
			}
		})
	}
	server, client := certified(t, "weft")
	for name, scene := range tlsScenes {
		t.Run(name, func(t *testing.T) {
			once := func(w web) string {
				l := w.listen()
				defer l.Close()
				saw := make(chan string, 1)
				go func() {
					c, err := l.Accept()
					if err != nil {
						saw <- err.Error()
						return
					}
					_ = c.SetDeadline(time.Now().Add(time.Minute))
					saw <- scene.server(tls.Server(c, server))
				}()
				c, err := w.dial(t.Context(), l)
				if err != nil {
					t.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				return scene.client(tls.Client(c, client)) + "; " + <-saw
			}
			for range 3 {
				if want, got := once(grounds["TCP"](t)), once(grounds["streams"](t)); got != want {
					t.Errorf("\n- %s\n+ %s", want, got)
				}
			}
		})
	}
}
