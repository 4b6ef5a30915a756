package weft_test

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft"
)

// BenchmarkRoundTrip is a message there and one back, between two NICs of this program. `weft bench latency` measures
// between two programs.
func BenchmarkRoundTrip(b *testing.B) {
	for _, l := range []struct {
		name string
		cfg  weft.Config
	}{{"switch", weft.Config{Switch: weft.NewSwitch()}}, {"udp", weft.Config{}}} {
		for _, size := range []int{64, 4096, 65536, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", l.name, size), func(b *testing.B) {
				ctx, p, q := pair(b, l.cfg)
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
