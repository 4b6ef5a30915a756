package stream_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// ends returns the two ends of a connection: a stream over UDP, or TCP.
func ends(b *testing.B, over string) (c, s net.Conn) {
	b.Helper()
	var err error
	if over == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		if c, err = net.Dial("tcp", l.Addr().String()); err == nil {
			s, err = l.Accept()
		}
		if err != nil {
			b.Fatal(err)
		}
	} else {
		link, err2 := weft.ParseLink(over)
		if err2 != nil {
			b.Fatal(err2)
		}
		p, q := pair(b, weft.Config{Link: link})
		var l *stream.Listener
		l, err2 = stream.Listen(p, "bench")
		if err2 != nil {
			b.Fatal(err2)
		}
		c, s, err = joined(l, &stream.Dialer{Process: q})
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

var carriers = []struct{ name, listen string }{{"stream-udp", "127.0.0.1:0"}, {"stream-shm", "shm:"}, {"tcp", "tcp"}}

// BenchmarkEcho measures the round trip of 64 bytes.
func BenchmarkEcho(b *testing.B) {
	for _, on := range carriers {
		b.Run(on.name, func(b *testing.B) {
			c, s := ends(b, on.listen)
			go io.Copy(s, struct{ io.Reader }{s})
			buf := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("message-udp", func(b *testing.B) {
		p, q := pair(b, weft.Config{Link: weft.UDP("127.0.0.1:0")})
		go func() {
			buf := make([]byte, 64)
			for {
				if _, err := p.Recv(context.Background(), q.Name(), 1, buf); err != nil {
					return
				}
				p.Send(context.Background(), q.Name(), 1, buf)
			}
		}()
		buf := make([]byte, 64)
		for b.Loop() {
			if err := q.Send(context.Background(), p.Name(), 1, buf); err != nil {
				b.Fatal(err)
			}
			if _, err := q.Recv(context.Background(), p.Name(), 1, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWrite measures writes in one direction.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 1 << 20} {
		for _, on := range carriers {
			b.Run(fmt.Sprintf("%d/%s", size, on.name), func(b *testing.B) {
				c, s := ends(b, on.listen)
				read := make(chan int64, 1)
				go func() { n, _ := io.Copy(io.Discard, s); read <- n }()
				buf := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				c.Close()
				<-read
			})
		}
	}
}
