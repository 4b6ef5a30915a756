package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/freeport"
)

// A block device, a file or memory whose NIC daemon has ended is of no use any more, and what serves it says so and ends.
func TestWhatServesNetworkMemoryEndsWithItsDaemon(t *testing.T) {
	addr := freeport.Loopback(t)
	runWeft(t, "mem/0 lends 64MiB at "+addr, "mem", "serve", "--name", "mem/0", "--size", "64MiB", "--listen", addr)
	for what, args := range map[string][]string{
		"nbd":   {"--unix", filepath.Join(t.TempDir(), "nbd.sock")},
		"mount": {t.TempDir()},
		"map":   {"--resident", "1MiB", "--unix", filepath.Join(t.TempDir(), "map.sock")},
	} {
		socket := filepath.Join(t.TempDir(), "a.sock")
		daemon, _ := startNIC(t, "--socket", socket, "--listen", "127.0.0.1:0", "--node", addr)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var out, errs lockedBuffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, append([]string{"mem", what, "--server", "mem/0", "--size", "4MiB", "--socket", socket}, args...), &out, &errs)
		}()
		for !strings.Contains(out.String()+errs.String(), "1 copy of a page") && ctx.Err() == nil && len(ended) == 0 {
			time.Sleep(time.Millisecond)
		}
		if strings.Contains(errs.String(), "userfaultfd") || strings.Contains(errs.String(), "memfile: mount") {
			continue // not permitted here
		}
		if err := daemon.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if status := <-ended; ctx.Err() != nil || status != exitFailed || !strings.Contains(errs.String(), "the network memory is gone: ") {
			t.Errorf("weft mem %s, whose daemon has ended: status %d, in time: %v: %s", what, status, ctx.Err() == nil, errs.String())
		}
	}
}
