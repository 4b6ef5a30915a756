package netmem_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
)

// largestMapping returns the size of the largest mapping of this program.
func largestMapping(t *testing.T) (bytes uint64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if rest, ok := strings.CutPrefix(line, "Size:"); ok {
			for _, c := range strings.TrimSpace(rest) {
				if c >= '0' && c <= '9' {
					kib = kib*10 + uint64(c-'0')
				}
			}
			bytes = max(bytes, kib<<10)
		}
	}
	return bytes
}

func TestWhatAServerLendsLiesOutsideOfGosHeapAndIsGivenBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "mem"}, Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const lent = 1 << 30 // more than any other mapping here
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if largestMapping(t) >= lent {
		t.Skip("this program has a mapping as large as the server's")
	}
	s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: lent})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > lent/8 {
		t.Errorf("the heap has grown by %d bytes for a server of %d", grown, lent)
	}
	if largestMapping(t) < lent {
		t.Errorf("there is no mapping of %d bytes", lent)
	}
	s.Close()
	for largestMapping(t) >= lent {
		if ctx.Err() != nil {
			t.Fatal("the mapping is still there a minute after Close")
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := netmem.Serve(p, netmem.ServerConfig{Bytes: 1 << 50}); err == nil || !strings.Contains(err.Error(), "this host has") {
		t.Errorf("a server of 1 PiB: %v", err)
	}
}
