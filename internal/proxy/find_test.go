package proxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Containers that share the directory of the sockets may have processes with the same id.
func TestProxiesWhoseProcessesHaveTheSameIDAreFound(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Setenv("WEFT_SOCKET", filepath.Join(t.TempDir(), "nic.sock"))
	var addrs []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		stop, err := (&Proxy{Listener: l}).TellHere()
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		addrs = append(addrs, l.Addr().String())
	}
	dir := filepath.Dir(os.Getenv("WEFT_SOCKET"))
	want := map[string]string{fmt.Sprintf("%d.sock", os.Getpid()): addrs[0], fmt.Sprintf("%d-2.sock", os.Getpid()): addrs[1]}
	all, err := Find(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if filepath.Dir(filepath.Dir(f.Socket)) != dir {
			continue // another proxy of this user
		}
		name := filepath.Base(f.Socket)
		if !f.Running || f.Why != "" || f.Listener != want[name] || f.PID != os.Getpid() {
			t.Errorf("found %+v; want one that listens at %q", f, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
