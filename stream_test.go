package weft_test

import (
	"testing"

	"github.com/weftnet/weft"
)

// BenchmarkStream measures the cost of one short message for both ends and their NICs together.
// One goroutine does all the work, so nothing waits for another core. `weft bench rate` measures
// between two programs.
func BenchmarkStream(b *testing.B) {
	const window = 32
	ctx, p, q := pair(b, on(weft.Config{Link: weft.NewSwitch().Link()}))
	var sends, recvs [window]weft.Op
	var bufs [window][64]byte
	data := make([]byte, 64)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += window {
		for i := range window {
			if err := q.StartRecv(&recvs[i], p.Name(), weft.AnyTag, bufs[i][:]); err != nil {
				b.Fatal(err)
			}
		}
		for i := range window {
			if err := p.Peer(q.Name()).StartSend(&sends[i], 1, data); err != nil {
				b.Fatal(err)
			}
		}
		for i := range window {
			if _, err := sends[i].Wait(ctx); err != nil {
				b.Fatal(err)
			}
		}
		for i := range window {
			if _, err := recvs[i].Wait(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
}
