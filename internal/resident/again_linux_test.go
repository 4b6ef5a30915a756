package resident

import (
	"context"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/program"
)

// The interface of a NIC is deleted and made anew. The program in its driver then answers there
// again, with its former variables.
func TestAProgramInTheDriverAnswersAgainWhenTheInterfaceIsBack(t *testing.T) {
	n, bed := newNICOn(t)
	client := n.client.(*xdp.Driver)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	defer func() { cancel(); <-done; <-done }()
	for i, d := range []*xdp.Driver{client, n.server} {
		do := func(f func()) { n.engine.do(func(*program.Table) { f() }) }
		go func() {
			done <- bed.Host(i).Do(func() error { d.Follow(ctx, do, func(text string) { t.Log(text) }); return nil })
		}()
	}
	attached := func(what string, is bool) {
		t.Helper()
		for late := time.Now().Add(patience); client.Attached() != is || n.server.Attached() != is; time.Sleep(time.Millisecond) {
			n.engine.do(func(*program.Table) {
				for _, d := range []*xdp.Driver{client, n.server} {
					d.Sleep()
					d.Awake() // looks at news
					d.Poll(clock.Time(time.Now().UnixNano()), &linktest.Inbox{})
				}
			})
			if time.Now().After(late) {
				t.Fatalf("after %v it is not so that %s", patience, what)
			}
		}
	}
	n.load(echoSource, false)
	n.meet(keys)
	for round := range uint64(2) {
		n.answered(6+round, 12)
		if err := bed.DeleteCable(); err != nil {
			t.Fatal(err)
		}
		attached("the interfaces are gone", false)
		if err := bed.RenewCable(); err != nil {
			t.Fatal(err)
		}
		attached("the drivers are attached again", true)
	}
	n.answered(8, 12)
	n.engine.do(func(table *program.Table) {
		// The initialisation counts as one.
		if info, _ := table.Info(programID); !info.InDriver || info.Profile.Activations != 4 {
			t.Errorf("in the driver: %v; %d activations", info.InDriver, info.Profile.Activations)
		}
	})
}
