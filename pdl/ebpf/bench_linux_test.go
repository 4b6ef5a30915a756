package ebpf_test

import (
	"fmt"
	"math"
	"testing"

	cilium "github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/pdl/ebpf"
)

const answerSource = `PROGRAM answer: TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN SEND PACKET[0] LEN PACKETLEN AS 10 TO 416 AT SOURCE END; END;`

// BenchmarkAnswer reports the kernel's time in the programs that answer a message (ns/answer,
// the best of pieces of 500), including dispatch and checksums. ns/op also includes the system
// call that brings the frame.
func BenchmarkAnswer(b *testing.B) {
	for _, path := range []ebpf.Path{{}, {IPv6: true}} {
		for _, size := range []int{0, 64, 512, 1380} {
			b.Run(fmt.Sprintf("%d/%+v", size, path), func(b *testing.B) { benchmarkAnswer(b, path, size) })
		}
	}
}

func benchmarkAnswer(b *testing.B, path ebpf.Path, size int) {
	k := newBenchOn(b, path).load(compiled(b, answerSource))
	defer k.close()
	stats, err := cilium.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Skip(err)
	}
	defer stats.Close()
	if err := k.Start(nil); err != nil {
		b.Fatal(err)
	}
	if err := k.Attach(); err != nil {
		b.Fatal(err)
	}
	spent := func() (ns, runs uint64) {
		s, err := k.host.Dispatch().Stats()
		if err != nil {
			b.Fatal(err)
		}
		return uint64(s.Runtime), s.RunCount
	}
	payload, out := make([]byte, size), make([]byte, 4096)
	best := math.Inf(1)
	ns, runs := spent()
	for b.Loop() {
		k.counter++
		verdict, err := k.host.Dispatch().Run(&cilium.RunOptions{Data: k.wrapped(datagram(k.counter, programID, 1, payload)[42:]), DataOut: out})
		if err != nil || verdict != xdpTx {
			b.Fatal(verdict, err)
		}
		if k.counter%500 == 0 {
			ns2, runs2 := spent()
			best = min(best, float64(ns2-ns)/float64(runs2-runs))
			ns, runs = ns2, runs2
		}
	}
	b.ReportMetric(best, "ns/answer")
}
