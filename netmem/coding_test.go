package netmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

// coded runs life with a client of several page servers with the given number of pages.
func coded(t *testing.T, many, pages int, cfg netmem.ClientConfig, life func(ctx context.Context, f *sim.Fabric, sp *sim.Process, c *netmem.Client, running []*sim.Process) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: 1 + many})
	var running []*sim.Process
	cfg.Servers, running = servers(f, many, pages)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		c, err := netmem.NewClient(ctx, sp.Weft(), cfg)
		if err != nil {
			return err
		}
		defer c.Close()
		return life(ctx, f, sp, c, running)
	})
	if err := f.Run(5 * time.Minute); err != nil {
		t.Fatal(err)
	}
}

// Six servers of 64 KiB hold 64 pages of 4 KiB as shards that survive the loss of two servers. As
// copies that survive the same loss, they hold at most 32.
func TestShardsTakeLessThanCopies(t *testing.T) {
	for _, c := range []struct {
		cfg      netmem.ClientConfig
		min, max uint64
	}{
		{netmem.ClientConfig{Coding: netmem.Code{Data: 4, Parity: 2}}, 64, 64},
		// The last places of three servers are not always on different servers.
		{netmem.ClientConfig{Copies: 3}, 20, 32},
	} {
		cfg, least, most := c.cfg, c.min, c.max
		coded(t, 6, 8, cfg, func(ctx context.Context, _ *sim.Fabric, _ *sim.Process, c *netmem.Client, _ []*sim.Process) error {
			kept, err := fillUp(ctx, c, func(b []byte, page uint64) { fill(b, page, 1) })
			if err == nil && (kept < least || kept > most) {
				err = fmt.Errorf("%d pages as %v, want %d to %d", kept, c.Stats().Code, least, most)
			}
			return err
		})
	}
}

// If two of six servers are dead and do not return, pages in 4+2 shards can be read. A page
// cannot be written until there are six servers again. Then the pages get their missing shards,
// and two more servers may die.
func TestShardsOutliveAsManyServersAsThereIsParity(t *testing.T) {
	cfg := netmem.ClientConfig{Coding: netmem.Code{Data: 4, Parity: 2}, Compress: true, Dead: 100 * time.Millisecond}
	coded(t, 6, 40, cfg, func(ctx context.Context, f *sim.Fabric, sp *sim.Process, c *netmem.Client, running []*sim.Process) error {
		const pages = 50
		buf, got := make([]byte, 4096), make([]byte, 4096)
		same := func() error {
			for i := range uint64(pages) {
				fill(buf, i, 1)
				if i%2 > 0 {
					prose(buf, i)
				}
				if err := c.ReadPage(ctx, i, got); err != nil || !bytes.Equal(got, buf) {
					return fmt.Errorf("page %d: %w, or other bytes", i, err)
				}
			}
			return nil
		}
		for i := range uint64(pages) {
			fill(buf, i, 1)
			if i%2 > 0 {
				prose(buf, i)
			}
			if err := c.WritePage(ctx, i, buf); err != nil {
				return err
			}
		}
		for round := range 2 {
			dead := []int{round, 3 + round}
			for _, i := range dead {
				f.Kill(running[i])
			}
			if err := same(); err != nil {
				return fmt.Errorf("round %d, two servers dead: %w", round, err)
			}
			within, cancel := sp.Runtime().WithTimeout(ctx, time.Second)
			err := c.WritePage(within, pages, buf)
			cancel()
			if !errors.Is(err, netmem.ErrFew) {
				return fmt.Errorf("a page written to four servers of six: %v", err)
			}
			for _, i := range dead {
				running[i] = startServer(f, 1+i, weft.Name{App: "memory", Index: uint32(i)}, 40)
			}
			for st := c.Stats(); st.Lacking > 0 || st.ServersUp < 6; st = c.Stats() {
				sleep(sp, 50*time.Millisecond)
			}
		}
		return same()
	})
}

// An impossible coding is refused before anything is changed, so the process can have a client
// afterwards.
func TestCodingsThatCannotBeAreRefusedWithTheNumbers(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 4})
	refs, _ := servers(f, 3, 10)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		for _, c := range []struct {
			cfg  netmem.ClientConfig
			want string
		}{
			{netmem.ClientConfig{Coding: netmem.Code{Data: 2, Parity: 2}}, "netmem: a page in 2+2 shards on 3 servers; expected 4 servers or more"},
			{netmem.ClientConfig{Coding: netmem.Code{Data: 3}}, "netmem: a page in 3+0 shards; expected 2 or more, 1 or more, and at most 32 together"},
			{netmem.ClientConfig{Coding: netmem.Code{Data: 1, Parity: 1}}, "netmem: a page in 1+1 shards; expected 2 or more"},
			{netmem.ClientConfig{Coding: netmem.Code{Data: -2, Parity: 4}}, "netmem: a page in -2+4 shards; expected 2 or more"},
			{netmem.ClientConfig{Coding: netmem.Code{Data: 30, Parity: 3}}, "netmem: a page in 30+3 shards; expected 2 or more, 1 or more, and at most 32"},
			{netmem.ClientConfig{Coding: netmem.Code{Data: math.MaxInt, Parity: 1}}, fmt.Sprintf("netmem: a page in %d+1 shards; expected 2 or more", math.MaxInt)},
			{netmem.ClientConfig{Coding: netmem.Code{Data: 2, Parity: math.MaxInt}}, fmt.Sprintf("netmem: a page in 2+%d shards; expected 2 or more", math.MaxInt)},
			{netmem.ClientConfig{Coding: netmem.Code{Data: 2, Parity: 1}, Copies: 2}, "netmem: 2 copies of a page, and 2+1 shards; expected one of the two"},
			{netmem.ClientConfig{Coding: netmem.Code{Data: 2, Parity: 1}}, ""},
		} {
			c.cfg.Servers = refs
			cl, err := netmem.NewClient(ctx, sp.Weft(), c.cfg)
			if err == nil {
				cl.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				return fmt.Errorf("%+v: %v; want %q", c.cfg.Coding, err, c.want)
			}
		}
		// Three servers of 80 KiB have room for 160 KiB in 2+1 shards.
		cfg := netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Servers: refs, Coding: netmem.Code{Data: 2, Parity: 1}}, Bytes: 160<<10 + 4096}
		want := "netmem: a volume of 167936 bytes, in shards: 2+1, on servers: 3; they have room for 163840"
		if _, err := netmem.Open(ctx, sp.Weft(), cfg); err == nil || err.Error() != want {
			return fmt.Errorf("%v; want %q", err, want)
		}
		cfg.Bytes -= 4096
		v, err := netmem.Open(ctx, sp.Weft(), cfg)
		if err == nil {
			v.Close()
		}
		return err
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
