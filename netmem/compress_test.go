package netmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

// prose fills a page with words, like text.
func prose(b []byte, page uint64) {
	words := []string{"memory ", "that ", "lies ", "idle ", "while ", "another ", "host ", "swaps ", "is ", "lent ", "to ", "it ", "\n"}
	r := rand.New(rand.NewPCG(page, 1))
	for n := 0; n < len(b); {
		n += copy(b[n:], words[r.IntN(len(words))])
	}
}

// alone runs life with a client of one page server with the given number of 8 KiB pages.
func alone(t *testing.T, pages int, cfg netmem.ClientConfig, life func(ctx context.Context, p *weft.Process, c *netmem.Client) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	cfg.Servers, _ = servers(f, 1, pages)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		c, err := netmem.NewClient(ctx, sp.Weft(), cfg)
		if err != nil {
			return err
		}
		defer c.Close()
		return life(ctx, sp.Weft(), c)
	})
	if err := f.Run(5 * time.Minute); err != nil {
		t.Fatal(err)
	}
}

// fillUp writes pages until the server is full and reads all of them. It returns their number.
func fillUp(ctx context.Context, c *netmem.Client, fill func(b []byte, page uint64)) (kept uint64, err error) {
	buf, got := make([]byte, 4096), make([]byte, 4096)
	for ; ; kept++ {
		fill(buf, kept)
		if err := c.WritePage(ctx, kept, buf); errors.Is(err, netmem.ErrFull) {
			break
		} else if err != nil {
			return 0, err
		}
	}
	for i := range kept {
		fill(buf, i)
		if err := c.ReadPage(ctx, i, got); err != nil || !bytes.Equal(got, buf) {
			return 0, fmt.Errorf("page %d of %d: %v, or other bytes", i, kept, err)
		}
	}
	return kept, nil
}

// A server of 64 client pages has room for more than twice as many compressed pages of text, and
// for no fewer pages that do not shrink.
func TestServersHaveRoomForMoreCompressedPages(t *testing.T) {
	noise := func(b []byte, page uint64) { fill(b, page, 1) }
	for _, c := range []struct {
		name     string
		compress bool
		fill     func([]byte, uint64)
		min, max uint64
	}{
		{"text, compressed", true, prose, 2*64 + 1, 8 * 64},
		{"text", false, prose, 64, 64},
		{"noise, compressed", true, noise, 64, 64},
	} {
		alone(t, 32, netmem.ClientConfig{Compress: c.compress}, func(ctx context.Context, p *weft.Process, cl *netmem.Client) error {
			kept, err := fillUp(ctx, cl, c.fill)
			if err != nil {
				return err
			}
			st, err := netmem.Stat(ctx, p, weft.Name{App: "memory"})
			if err != nil {
				return err
			}
			t.Logf("%s: %d pages of 4 KiB in a server of 64: %d bytes, kept as %d", c.name, kept, st.PlainBytes, st.KeptBytes)
			if kept < c.min || kept > c.max || st.PlainBytes != int64(kept)*4096 || (st.KeptBytes < st.PlainBytes) != (kept > 64) {
				return fmt.Errorf("%s: %d pages, want %d to %d; %+v", c.name, kept, c.min, c.max, st)
			}
			if len(st.Volumes) != 1 || st.Volumes[0].Pages != int(kept) || st.Volumes[0].Code.String() != "1 copy" {
				return fmt.Errorf("volumes: %+v", st.Volumes)
			}
			return nil
		})
	}
}

// A quota counts the room that pages take, not their size before compression.
func TestAQuotaCountsCompressedBytes(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	name := weft.Name{App: "memory"}
	f.Serve(1, name.String(), func(p *sim.Process) error {
		s, err := netmem.Serve(p.Weft(), netmem.ServerConfig{Bytes: 64 * 8192, QuotaBytes: 8 * 8192})
		if err != nil {
			return err
		}
		defer s.Close()
		return sleep(p, time.Hour)
	})
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		c, err := netmem.NewClient(ctx, sp.Weft(), netmem.ClientConfig{Servers: []netmem.ServerRef{{Name: name}}, Compress: true})
		if err != nil {
			return err
		}
		defer c.Close()
		kept, err := fillUp(ctx, c, prose)
		if err == nil && (kept <= 2*16 || kept > 8*16) {
			err = fmt.Errorf("%d pages of text in a quota of 16 pages", kept)
		}
		return err
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
