package daemon_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/vni"
)

// This attack worked once: attaching was refused, but the link still took messages. A host
// without the fabric key, such as another user, opens no session.
func TestAHostWithoutTheFabricKeySendsNoMessage(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	victim, tool := mustAttach(t, c, "victim/0"), dialTool(t, c)
	key := filepath.Join(t.TempDir(), "fabric.key")
	if _, err := fabric.Init(key); err != nil {
		t.Fatal(err)
	}
	for what, config := range map[string]weft.Config{"another key": {Fabric: key}, "no key, on a plain link": {Plain: true}} {
		config.Name, config.Nodes = name(t, "thief/0"), []weft.Node{{Addr: c.Listen}}
		thief, err := weft.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		dropped := func() uint64 {
			_, mem, unmap, err := tool.Stat(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer unmap()
			page, err := vni.OpenCounterPage(mem)
			if err != nil {
				t.Fatal(err)
			}
			return page.Load(vni.DropMAC) + page.Load(vni.DropUnsealed)
		}
		before := dropped()
		ctx, cancel := context.WithCancel(t.Context())
		sent := start(func() error { return thief.Send(ctx, victim.Name(), 1, []byte("stolen")) })
		for end := time.Now().Add(patience); dropped() < before+2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: no frame of the stranger is counted as dropped", what)
			}
		}
		cancel()
		if err := ends(t, "the stranger's send", sent); err == nil {
			t.Errorf("%s: a stranger has sent a message", what)
		}
		if err := thief.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, ok, err := victim.TryProbe(t.Context(), weft.AnyProcess, 1); ok || err != nil {
		t.Errorf("a message of a stranger has come: %v, %v", ok, err)
	}
	if nodes, err := dialTool(t, c).Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("the daemon knows strangers: %v, %v", nodes, err)
	}
}
