package netmem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

func TestAServerTellsWhatItHasToAnyProcess(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	refs, _ := servers(f, 1, 10)
	f.Serve(2, "deaf/0", func(p *sim.Process) error { return sleep(p, time.Hour) })
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p, ctx := sp.Weft(), context.Background()
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs})
		if err != nil {
			return err
		}
		defer c.Close()
		buf := make([]byte, 4096)
		for i := range uint64(3) {
			if err := c.WritePage(ctx, i, buf); err != nil {
				return err
			}
		}
		if err := c.ReadPage(ctx, 1, buf); err != nil {
			return err
		}
		st, err := netmem.Stat(ctx, p, refs[0].Name)
		if err != nil {
			return err
		}
		if st.Bytes != 81920 || st.UsedBytes != 12288 || st.Pages != 3 || st.Clients != 1 || st.PageOuts != 3 || st.PageIns != 1 || st.PacketsIn < 5 {
			return fmt.Errorf("%+v behind three pages out and one in", st)
		}
		within, cancel := p.Runtime().WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := netmem.Stat(within, p, weft.Name{App: "deaf"}); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a process that is no server: %v", err)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
