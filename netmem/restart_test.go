package netmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

// restarts holds three page servers and a client that writes and reads without a pause. Each
// server has its own NIC, which has another id in each life. Each server is killed with its NIC
// in turn, and starts again at its address after 0.5 to 6 s.
type restarts struct {
	f      *sim.Fabric
	client *netmem.Client
	writes map[uint64]uint64 // by page
	over   bool
	kills  int
}

func restartInTurn(seed uint64) (*restarts, error) {
	faults := sim.Faults{Loss: 0.01, Duplicate: 0.01, Reorder: 0.01, Delay: 0.002, DelayMax: 5 * time.Millisecond}
	r := &restarts{writes: map[uint64]uint64{}}
	r.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: 4, Faults: faults}, simulated.Hooks{NewIDs: true, Hearsay: true}))
	refs, _ := servers(r.f, 3, 200)
	r.f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		c, err := netmem.NewClient(ctx, sp.Weft(), netmem.ClientConfig{Servers: refs, Copies: 2})
		if err != nil {
			return err
		}
		defer c.Close()
		r.client = c
		var failed error
		sp.Start("killer", func(sp *sim.Process) error {
			failed = r.kill(ctx, sp)
			r.over = true
			return nil
		})
		for n := uint64(0); !r.over; n++ {
			if err := r.write(ctx, sp, n%50); err != nil {
				return fmt.Errorf("after %d kills: %w", r.kills, err)
			}
		}
		return failed
	})
	return r, r.f.Run(10 * time.Minute)
}

// kill kills each server once, with its NIC. The next one dies when all pages have their copies
// again.
func (r *restarts) kill(ctx context.Context, sp *sim.Process) error {
	for server := range 3 {
		if err := sleep(sp, time.Second); err != nil {
			return err
		}
		down := 500*time.Millisecond + time.Duration(sp.Rand().Int64N(int64(5500*time.Millisecond)))
		r.f.Reboot(1+server, down)
		r.kills++
		if err := sleep(sp, down); err != nil {
			return err
		}
		whole := func() bool {
			st := r.client.Stats()
			return st.ServersUp == 3 && st.Lacking == 0
		}
		within := sp.Runtime().Now().Add(20 * time.Second)
		for !whole() {
			if sp.Runtime().Now().After(within) {
				return fmt.Errorf("server %d, down for %v: 20 s after its start: %+v", server, down, r.client.Stats())
			}
			if err := sleep(sp, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes a page and reads it again.
func (r *restarts) write(ctx context.Context, sp *sim.Process, page uint64) error {
	within, cancel := sp.Runtime().WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r.writes[page]++
	buf, got := make([]byte, 4096), make([]byte, 4096)
	fill(buf, page, r.writes[page])
	err := errors.Join(r.client.WritePage(within, page, buf), r.client.ReadPage(within, page, got), sleep(sp, 5*time.Millisecond))
	if err == nil && !bytes.Equal(got, buf) {
		err = fmt.Errorf("page %d has other bytes", page)
	}
	return err
}

func TestServersThatAreKilledWithTheirNICsInTurnServeAgain(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if r, err := restartInTurn(seed); err != nil || r.kills != 3 {
				t.Errorf("%d kills: %v", r.kills, err)
			}
		})
	}
}
