package weft_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft"
)

// BenchmarkRoundTrip measures the round trip of a message between two NICs of this program. `weft
// bench latency` measures it between two programs.
func BenchmarkRoundTrip(b *testing.B) {
	for _, l := range []struct {
		name string
		cfg  weft.Config
	}{{"switch", weft.Config{Link: weft.NewSwitch().Link()}}, {"udp", weft.Config{}}} {
		for _, size := range []int{64, 4096, 65536, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", l.name, size), func(b *testing.B) {
				ctx, p, q := pair(b, on(l.cfg))
				msg, buf, back := make([]byte, size), make([]byte, size), make([]byte, size)
				go func() {
					for range b.N + 100 {
						if _, err := q.Recv(ctx, p.Name(), 1, buf); err != nil {
							return
						}
						if err := q.Send(ctx, p.Name(), 1, buf); err != nil {
							return
						}
					}
				}()
				turn := func() {
					if err := p.Send(ctx, q.Name(), 1, msg); err != nil {
						b.Fatal(err)
					}
					if _, err := p.Recv(ctx, q.Name(), 1, back); err != nil {
						b.Fatal(err)
					}
				}
				for range 100 {
					turn()
				}
				b.SetBytes(int64(2 * size))
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					turn()
				}
			})
		}
	}
}

// BenchmarkMulticast measures a message to several processes on 8 other NICs of this program: by
// one command, and by concurrent sends to each process.
func BenchmarkMulticast(b *testing.B) {
	for _, l := range []struct {
		name string
		cfg  weft.Config
	}{{"switch", weft.Config{Link: weft.NewSwitch().Link()}}, {"udp", weft.Config{}}} {
		for _, n := range []int{8, 64} {
			for _, size := range []int{64, 4096, 65536} {
				for _, way := range []string{"multicast", "sends"} {
					b.Run(fmt.Sprintf("%s/%s/%d/%d", l.name, way, n, size), func(b *testing.B) { multicasts(b, l.cfg, way == "multicast", n, size) })
				}
			}
		}
	}
}

func multicasts(b *testing.B, cfg weft.Config, multicast bool, n, size int) {
	ctx, source, receivers := hall(b, cfg, 8, n)
	msg := make([]byte, size)
	var to []weft.Name
	got := make(chan error, n)
	for _, p := range receivers {
		to = append(to, p.Name())
		go func() {
			buf := make([]byte, size)
			for {
				_, err := p.Recv(ctx, source.Name(), 1, buf)
				got <- err
				if err != nil {
					return
				}
			}
		}()
	}
	ops := make([]weft.Op, n)
	round := func() {
		if multicast {
			if err := source.Multicast(ctx, to, 1, msg); err != nil {
				b.Fatal(err)
			}
		} else {
			for i, name := range to {
				if err := source.Peer(name).StartSend(&ops[i], 1, msg); err != nil {
					b.Fatal(err)
				}
			}
			for i := range ops {
				if _, err := ops[i].Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
		for range n {
			if err := <-got; err != nil {
				b.Fatal(err)
			}
		}
	}
	for range 20 {
		round()
	}
	b.SetBytes(int64(n * size))
	b.ResetTimer()
	for range b.N {
		round()
	}
}

// hall opens a source and n receivers. The receivers share the given number of NICs.
func hall(b *testing.B, cfg weft.Config, nics, n int) (ctx context.Context, source *weft.Process, receivers []*weft.Process) {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	var nodes []weft.Node
	for i := range nics + 1 {
		c := cfg
		c.Nodes = nodes
		h, err := weft.OpenNIC(ctx, c)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { h.Close() })
		nodes = append(nodes, weft.Node{ID: h.ID(), Addr: h.Addr()})
		for k := 0; k == 0 || i > 0 && k < n/nics; k++ {
			p, err := h.Attach(ctx, weft.Name{App: "hall", Index: uint32(i*1000 + k)})
			if err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				source = p
			} else {
				receivers = append(receivers, p)
			}
		}
	}
	for _, p := range receivers {
		if _, err := source.WaitName(ctx, p.Name()); err != nil {
			b.Fatal(err)
		}
	}
	return ctx, source, receivers
}

// BenchmarkMessage measures the work of one short message at both ends. One goroutine does this
// work, so neither end waits for the other. lone sends and receives in turns. burst keeps 64
// messages in flight.
func BenchmarkMessage(b *testing.B) {
	b.Run("lone", func(b *testing.B) {
		ctx, p, q := pair(b, on(weft.Config{Link: weft.NewSwitch().Link()}))
		msg, buf := make([]byte, 64), make([]byte, 64)
		b.ReportAllocs()
		for range b.N {
			if err := p.Send(ctx, q.Name(), 1, msg); err != nil {
				b.Fatal(err)
			}
			if _, err := q.Recv(ctx, p.Name(), 1, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("burst", func(b *testing.B) {
		const n = 64
		ctx, p, q := pair(b, on(weft.Config{Link: weft.NewSwitch().Link()}))
		msg, buf := make([]byte, 64), make([]byte, 64*n)
		var sends, recvs [n]weft.Op
		b.ReportAllocs()
		for range b.N / n {
			for i := range n {
				if err := q.StartRecv(&recvs[i], p.Name(), 1, buf[64*i:][:64]); err != nil {
					b.Fatal(err)
				}
			}
			for i := range n {
				if err := p.Peer(q.Name()).StartSend(&sends[i], 1, msg); err != nil {
					b.Fatal(err)
				}
			}
			for i := range n {
				if _, err := sends[i].Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
			for i := range n {
				if _, err := recvs[i].Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("many", func(b *testing.B) {
		const n = 64
		ctx, p, q := pair(b, on(weft.Config{Link: weft.NewSwitch().Link()}))
		in, err := q.Inbox(p.Name(), 1, 0)
		if err != nil {
			b.Fatal(err)
		}
		messages := slices.Repeat([][]byte{make([]byte, 64)}, n)
		b.ReportAllocs()
		for range b.N / n {
			if _, err := p.Peer(q.Name()).SendMany(ctx, 1, messages); err != nil {
				b.Fatal(err)
			}
			for range n {
				if _, err := in.Next(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
