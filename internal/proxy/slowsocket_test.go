package proxy

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// A stopped or busy proxy does not answer in time. It is still running, so its socket stays. Only
// a socket without a listener is removed.
func TestTheSocketOfAProxyThatIsSlowStays(t *testing.T) {
	t.Setenv("WEFT_SOCKET", filepath.Join(t.TempDir(), "nic.sock"))
	dir, err := ctl.MakePlace(place)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
		return l
	}
	slow := listen("4711.sock") // the kernel accepts for it, and it sends nothing
	find := func(within time.Duration) map[string]Found {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		all, err := Find(ctx)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]Found{}
		for _, f := range all {
			if filepath.Dir(f.Socket) == dir {
				found[filepath.Base(f.Socket)] = f
			}
		}
		return found
	}
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	if f := find(20 * time.Millisecond)["4711.sock"]; f.Dead() || f.Why == "" || f.PID != 4711 || !there("4711.sock") {
		t.Errorf("a proxy that does not answer is found as %+v, and its socket is there: %v", f, there("4711.sock"))
	}
	slow.Close()
	listen("4712-2.sock").Close()
	found := find(time.Minute)
	for name, pid := range map[string]int{"4711.sock": 4711, "4712-2.sock": 4712} {
		if f := found[name]; !f.Dead() || f.PID != pid || there(name) {
			t.Errorf("a proxy that was killed is found as %+v, and its socket is there: %v", f, there(name))
		}
	}
}
