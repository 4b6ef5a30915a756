package netmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

// The test counts the page bytes that are copied in the scenarios of the page driver's design,
// including the naive mode, on a network without retransmissions.
// HSN-16 to HSN-19, HSN-23, HSN-28, HSN-40
func TestPagesAreCopiedOnBothSidesAsTheirDesignSays(t *testing.T) {
	const pages, copies = 64, 2
	for _, size := range []int{4096, 8192} {
		// Every second page of 4 KiB is copied behind another. The second half of each page of 8
		// KiB is put behind the first half.
		out := uint64(pages * size / 2)
		in := uint64(0)
		if size == 8192 {
			in = pages * 4096
		}
		f := sim.New(sim.Config{Seed: 1, NICs: 1 + copies})
		refs, _ := servers(f, copies, pages)
		f.Process(0, "client/0", func(sp *sim.Process) error {
			p, ctx := sp.Weft(), context.Background()
			c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs, Copies: copies, PageBytes: size})
			if err != nil {
				return err
			}
			defer c.Close()
			buf, want := make([]byte, size), make([]byte, size)
			for i := range uint64(pages) {
				fill(buf, i, 1)
				if err := c.WritePage(ctx, i, buf); err != nil {
					return err
				}
			}
			for _, r := range refs { // each copy was sent there separately
				st, err := netmem.Stat(ctx, p, r.Name)
				if err != nil {
					return err
				}
				if st.Pages != pages || st.CopiedBytes != out {
					return fmt.Errorf("%v has %d pages and has copied %d bytes; want %d and %d", r.Name, st.Pages, st.CopiedBytes, pages, out)
				}
			}
			for i := range uint64(pages) {
				same := false
				fill(want, i, 1)
				if err := c.ViewPage(ctx, i, func(page []byte) { same = bytes.Equal(page, want) }); err != nil || !same {
					return fmt.Errorf("page %d is seen as it was written: %v, %w", i, same, err)
				}
			}
			if st := c.Stats(); st.CopiedBytes != in || st.HandedBytes != 0 || st.Repeated != 0 {
				return fmt.Errorf("%d bytes were copied by the driver and %d for the caller, want %d and none; %d requests were repeated", st.CopiedBytes, st.HandedBytes, in, st.Repeated)
			}
			for i := range uint64(pages) {
				fill(want, i, 1)
				if err := c.ReadPage(ctx, i, buf); err != nil || !bytes.Equal(buf, want) {
					return fmt.Errorf("page %d reads as it was written: %v, %w", i, bytes.Equal(buf, want), err)
				}
			}
			if st := c.Stats(); st.CopiedBytes != 2*in || st.HandedBytes != uint64(pages*size) {
				return fmt.Errorf("naively, %d bytes were copied by the driver and %d for the caller, want %d and %d", st.CopiedBytes, st.HandedBytes, 2*in, pages*size)
			}
			return nil
		})
		if err := f.Run(time.Minute); err != nil {
			t.Errorf("pages of %d bytes: %v", size, err)
		}
	}
}

// A page is sent to each server separately, and is written when all servers have it.
func TestAPageOfWhichAServerHasNoCopyIsNotWritten(t *testing.T) { // HSN-28
	f := sim.New(sim.Config{Seed: 1, NICs: 3})
	refs, running := servers(f, 2, 10)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		p, ctx := sp.Weft(), context.Background()
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: refs, Copies: 2})
		if err != nil {
			return err
		}
		defer c.Close()
		page := make([]byte, 4096)
		if err := c.WritePage(ctx, 1, page); err != nil {
			return err
		}
		f.Kill(running[1])
		within, cancel := p.Runtime().WithTimeout(ctx, time.Second)
		defer cancel()
		if err := c.WritePage(within, 1, page); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("with one server of two: %v; want that it never comes to its end", err)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
