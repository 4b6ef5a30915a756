package main

import (
	"context"
	"strings"
	"testing"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testenv"
)

// Another process has the name of a starting server. The server says so, waits, and serves when
// the name is free.
func TestAServerWaitsForItsNameWhileAnotherProcessHasIt(t *testing.T) {
	addr := testenv.Loopback(t)
	link, err := fabric.ParseLink(addr)
	if err != nil {
		t.Fatal(err)
	}
	holder, err := fabric.Open(t.Context(), fabric.Config{Name: fabric.Name{App: "mem"}, Link: link})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"mem", "serve", "--name", "mem/0", "--size", "1MiB", "--listen", "127.0.0.1:0", "--node", addr}, &out, &errs)
	}()
	await(t, "what the server says of the name", func() bool { return strings.Contains(errs.String(), "waiting up to 10s") || len(ended) > 0 })
	if out.String() != "" || !strings.Contains(errs.String(), "name is taken") {
		t.Fatalf("beside the process that has the name: %q, %q", out.String(), errs.String())
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the server", func() bool { return strings.Contains(out.String(), "mem/0 lends 1MiB") || len(ended) > 0 })
	cancel()
	if status := <-ended; status != 0 || strings.Count(errs.String(), "waiting up to") != 1 {
		t.Errorf("status %d, %q", status, errs.String())
	}
}

// A server that cannot get its name in time is refused.
func TestAServerDoesNotTakeANameThatAnotherProcessKeeps(t *testing.T) {
	addr := testenv.Loopback(t)
	runWeft(t, "mem/0 lends 1MiB", "mem", "serve", "--name", "mem/0", "--size", "1MiB", "--listen", addr)
	status, out, stderr := weft("mem", "serve", "--name", "mem/0", "--size", "1MiB", "--listen", "127.0.0.1:0", "--node", addr)
	if status != exitFailed || out != "" || !strings.Contains(stderr, "\nweft: ") || !strings.HasSuffix(stderr, "name is taken: mem/0 is the process at slot 1 of NIC "+lastWord(stderr)+"\n") {
		t.Errorf("status %d, %q, %q", status, out, stderr)
	}
}

func lastWord(s string) string {
	f := strings.Fields(s)
	return f[len(f)-1]
}
