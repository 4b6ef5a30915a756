package netmem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// onServer runs life with a volume on a server on host 1. The server has room for exactly the
// pages of the volume.
func onServer(t *testing.T, pages int, faults sim.Faults, life func(ctx context.Context, f *sim.Fabric, v *Volume) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: 2, Faults: faults})
	name := weft.Name{App: "memory"}
	f.Serve(1, name.String(), func(sp *sim.Process) error {
		if _, err := Serve(sp.Weft(), ServerConfig{Bytes: pages * 4096}); err != nil {
			return err
		}
		return sleep(sp, time.Hour)
	})
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		v, err := Open(ctx, sp.Weft(), VolumeConfig{ClientConfig: ClientConfig{Servers: []ServerRef{{Name: name}}}, Bytes: int64(pages) * 4096})
		if err != nil {
			return err
		}
		defer v.Close()
		return life(ctx, f, v)
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}

// pagesOf returns the content of the first pages that these tests write, one after another.
func pagesOf(pages int) (b []byte) {
	for i := range uint64(pages) {
		b = append(b, pageOf(i)...)
	}
	return b
}

// holds checks that a volume has these bytes.
func holds(v *Volume, want []byte) error {
	got := make([]byte, len(want))
	if _, err := v.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		return errors.Join(errors.New("other bytes than were written"), err)
	}
	return nil
}

func TestEachPageOfAWriteOfManyIsSentOnce(t *testing.T) {
	onServer(t, 64, sim.Faults{}, func(ctx context.Context, _ *sim.Fabric, v *Volume) error {
		for round := range 2 { // new pages, and existing pages
			before := v.c.port.driver.Counts().PacketsOut
			if _, err := v.WriteAt(pagesOf(64), 0); err != nil {
				return err
			}
			st := v.Stats()
			if n := v.c.port.driver.Counts().PacketsOut - before; n != 64 || st.Repeated != 0 || st.PageOuts != 64*uint64(round+1) {
				return fmt.Errorf("round %d: 64 pages took %d packets; %d requests repeated, %d pages out", round, n, st.Repeated, st.PageOuts)
			}
		}
		return errors.Join(holds(v, pagesOf(64)), ended(v.c))
	})
}

// If an answer is lost, the request is retransmitted without a change. A second version would
// need additional room, which a full server does not have.
func TestAPageOfAWriteOfManyThatIsLateGetsNoSecondVersion(t *testing.T) {
	onServer(t, 64, sim.Faults{Loss: 0.05}, func(ctx context.Context, _ *sim.Fabric, v *Volume) error {
		for range 4 {
			before := v.c.version
			if _, err := v.WriteAt(pagesOf(64), 0); err != nil {
				return err
			}
			if n := v.c.version - before; n != 64 {
				return fmt.Errorf("64 pages were given %d versions", n)
			}
		}
		if v.Stats().Repeated == 0 {
			return errors.New("no request was repeated: nothing was lost that this test is about")
		}
		return errors.Join(holds(v, pagesOf(64)), ended(v.c))
	})
}

func TestAWriteOfManyPagesSaysThatTheServersAreFull(t *testing.T) {
	onServer(t, 32, sim.Faults{}, func(ctx context.Context, _ *sim.Fabric, v *Volume) error {
		v.bytes *= 2 // as if another client had taken the room since
		_, err := v.WriteAt(pagesOf(64), 0)
		if !errors.Is(err, ErrFull) {
			return fmt.Errorf("64 pages were written where 32 have room: %w", err)
		}
		got := make([]byte, 4096)
		for i := range uint64(64) {
			if _, err := v.ReadAt(got, int64(i)*4096); err != nil || !bytes.Equal(got, pageOf(i)) && !bytes.Equal(got, make([]byte, 4096)) {
				return errors.Join(fmt.Errorf("page %d is neither as it was nor as it should have become", i), err)
			}
		}
		return ended(v.c)
	})
}

func TestAWriteOfManyPagesEndsWithItsContext(t *testing.T) {
	onServer(t, 64, sim.Faults{}, func(ctx context.Context, f *sim.Fabric, v *Volume) error {
		if _, err := v.WriteAt(make([]byte, 64*4096), 0); err != nil {
			return err
		}
		f.StopNIC(1)
		within, cancel := v.c.p.Runtime().WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := v.WriteAtContext(within, pagesOf(64), 0)
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a write whose server is away ends with %w", err)
		}
		if errors.Is(err, ErrFew) || v.Stats().ServersUp != 1 {
			return fmt.Errorf("%d servers are up, and the write ends with %w", v.Stats().ServersUp, err)
		}
		for n, p := range v.c.pages {
			if p.busy.Load() {
				return fmt.Errorf("page %d is still taken", n)
			}
		}
		return ended(v.c)
	})
}

// writeAll writes the first n pages by WritePages, with the content from page. It returns the
// error of each page.
func writeAll(c *Client, n int, page func(i uint64) []byte) (failed map[uint64]error, err error) {
	failed, next := map[uint64]error{}, uint64(0)
	err = c.WritePages(context.Background(), 8, func() (uint64, []byte, bool) {
		next++
		if next > uint64(n) {
			return 0, nil, false
		}
		return next - 1, page(next - 1), true
	}, func(i uint64, _ []byte, err error) { failed[i] = err })
	return failed, err
}

func TestPagesThatAreWrittenTogetherAreWhatWasWritten(t *testing.T) {
	onServer(t, 64, sim.Faults{Loss: 0.05, Duplicate: 0.05}, func(ctx context.Context, _ *sim.Fabric, v *Volume) error {
		failed, err := writeAll(v.c, 64, func(i uint64) []byte {
			if i == 7 {
				return make([]byte, 100)
			}
			return pageOf(i)
		})
		if err != nil || len(failed) != 64 {
			return errors.Join(fmt.Errorf("%d of 64 pages have ended", len(failed)), err)
		}
		want := pagesOf(64)
		clear(want[7*4096:][:4096])
		for i, err := range failed {
			if (err != nil) != (i == 7) {
				return fmt.Errorf("page %d ends with %w", i, err)
			}
		}
		return errors.Join(holds(v, want), ended(v.c))
	})
}

func TestPagesAreWrittenTogetherInShards(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 4})
	var refs []ServerRef
	for i := range 3 {
		name := weft.Name{App: "memory", Index: uint32(i)}
		refs = append(refs, ServerRef{Name: name})
		f.Serve(1+i, name.String(), func(sp *sim.Process) error {
			if _, err := Serve(sp.Weft(), ServerConfig{Bytes: 64 * 8192}); err != nil {
				return err
			}
			return sleep(sp, time.Hour)
		})
	}
	f.Process(0, "client/0", func(sp *sim.Process) error {
		c, err := NewClient(context.Background(), sp.Weft(), ClientConfig{Servers: refs, Coding: Code{Data: 2, Parity: 1}})
		if err != nil {
			return err
		}
		defer c.Close()
		failed, err := writeAll(c, 32, pageOf)
		for i, err := range failed {
			if err != nil {
				return fmt.Errorf("page %d: %w", i, err)
			}
		}
		if err == nil {
			_, err = readAll(c, 32, 8)
		}
		return errors.Join(err, ended(c))
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}
