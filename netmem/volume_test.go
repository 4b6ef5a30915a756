package netmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

// die kills one server after another and starts it again. The next one dies when all pages have
// their copies again.
func die(f *sim.Fabric, sp *sim.Process, v *netmem.Volume, refs []netmem.ServerRef, running []*sim.Process, pages int) {
	p, kills := sp.Weft(), uint64(0)
	for i := 0; sleep(p, 200*time.Millisecond) == nil; {
		if st := v.Stats(); st.Lacking == 0 && st.ServersUp == len(refs) && st.Restarts == kills {
			kills++
			i = (i + 1 + sp.Rand().IntN(len(refs)-1)) % len(refs)
			f.Kill(running[i])
			f.After(time.Duration(sp.Rand().IntN(int(time.Second))), func() { running[i] = startServer(f, 1+i, refs[i].Name, pages) })
		}
	}
}

// withVolume runs life with a volume on three page servers of the given number of pages each.
func withVolume(t *testing.T, seed uint64, faults sim.Faults, cfg netmem.VolumeConfig, pages int, life func(ctx context.Context, sp *sim.Process, v *netmem.Volume) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: seed, NICs: 4, Faults: faults})
	var running []*sim.Process
	cfg.Servers, running = servers(f, 3, pages)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		v, err := netmem.Open(ctx, sp.Weft(), cfg)
		if err != nil {
			return err
		}
		defer v.Close()
		if faults != (sim.Faults{}) {
			sp.Runtime().Go(func() { die(f, sp, v, cfg.Servers, running, pages) })
		}
		return life(ctx, sp, v)
	})
	if err := f.Run(5 * time.Minute); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// A volume behaves like memory: several callers read, write and discard concurrently at any
// offsets. The volume has the bytes that ordinary memory would have, although its servers die one
// after another.
func TestAVolumeIsAPieceOfMemory(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 1
	}
	const callers, each = 3, 10*4096 + 1234 // so that neighbours share a page
	deaths := uint64(0)
	for seed := range seeds {
		page := []int{4096, 8192}[seed%2]
		cfg := netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Copies: 2, PageBytes: page}, Bytes: 16 * 8192, ReadAhead: 4}
		switch seed % 4 {
		case 2:
			cfg.Copies, cfg.Coding = 0, netmem.Code{Data: 2, Parity: 1}
		case 3:
			cfg.Copies, cfg.Coding, cfg.Compress = 0, netmem.Code{Data: 2, Parity: 1}, true
		}
		faults := sim.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.005}
		withVolume(t, seed, faults, cfg, 100, func(ctx context.Context, sp *sim.Process, v *netmem.Volume) error {
			left, failed := callers, error(nil)
			for k := range callers {
				sp.Start("caller", func(*sim.Process) error {
					failed = errors.Join(failed, useMemory(ctx, sp, v, int64(k)*each, each))
					left--
					sp.Runtime().Wake()
					return nil
				})
			}
			err := errors.Join(sp.Runtime().WaitUntil(ctx, func() bool { return left == 0 }), failed)
			deaths += v.Stats().Restarts
			return err
		})
	}
	if deaths < seeds {
		t.Errorf("%d deaths of servers in %d runs: expected more", deaths, seeds)
	}
}

// useMemory applies random operations to size bytes from base on, and to a slice.
func useMemory(ctx context.Context, sp *sim.Process, v *netmem.Volume, base int64, size int) error {
	r := sp.Rand()
	model, buf := make([]byte, size), make([]byte, size)
	begun := sp.Runtime().Now()
	for step := 0; step < 120 || sp.Runtime().Now().Sub(begun) < 4*time.Second; step++ {
		at := r.IntN(size)
		n := r.IntN(min(size-at, 1<<r.IntN(16)) + 1)
		switch part := buf[:n]; r.IntN(6) {
		case 0, 1:
			for i := range part {
				part[i] = byte(r.Uint32())
			}
			copy(model[at:], part)
			if _, err := v.WriteAtContext(ctx, part, base+int64(at)); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		case 2:
			clear(model[at : at+n])
			if err := v.Discard(ctx, base+int64(at), int64(n)); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		case 3: // sequentially, so pages are read ahead
			for i := range 6 {
				from := min(at+i*n, size)
				to := min(from+n, size)
				if _, err := v.ReadAtContext(ctx, buf[:to-from], base+int64(from)); err != nil {
					return fmt.Errorf("step %d: %w", step, err)
				}
				if !bytes.Equal(buf[:to-from], model[from:to]) {
					return fmt.Errorf("step %d: %d bytes at %d differ, the %dth in order", step, to-from, base+int64(from), i)
				}
			}
		case 4: // several overlapping parts in one call
			if err := readMany(ctx, sp, v, base, model); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		default:
			if _, err := v.ReadAtContext(ctx, part, base+int64(at)); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			if !bytes.Equal(part, model[at:at+n]) {
				return fmt.Errorf("step %d: %d bytes at %d differ", step, n, base+int64(at))
			}
		}
	}
	return v.Flush(ctx)
}

// readMany reads several parts of a piece of a volume in one call, and compares them with the
// model.
func readMany(ctx context.Context, sp *sim.Process, v *netmem.Volume, base int64, model []byte) (err error) {
	r := sp.Rand()
	bufs, offsets, ends := make([][]byte, r.IntN(20)), []int64(nil), 0
	for i := range bufs {
		at := r.IntN(len(model))
		bufs[i] = make([]byte, r.IntN(min(len(model)-at, 1<<r.IntN(15))+1))
		offsets = append(offsets, base+int64(at))
	}
	v.ReadMany(ctx, bufs, offsets, func(i int, failed error) {
		ends++
		at := int(offsets[i] - base)
		switch want := model[at:][:len(bufs[i])]; {
		case failed != nil:
			err = errors.Join(err, failed)
		case !bytes.Equal(bufs[i], want):
			err = errors.Join(err, fmt.Errorf("%d bytes at %d differ, the %dth of %d parts", len(want), offsets[i], i, len(bufs)))
		}
	}, func() {})
	if ends != len(bufs) {
		err = errors.Join(err, fmt.Errorf("%d parts have ended of %d", ends, len(bufs)))
	}
	return err
}

// Parts that are read together are requested before the first wait. A part outside of the volume
// fails alone.
func TestPartsThatAreReadTogetherAreWaitedForTogether(t *testing.T) {
	const parts = 16
	cfg := netmem.VolumeConfig{Bytes: 100 * 4096}
	withVolume(t, 1, sim.Faults{}, cfg, 100, func(ctx context.Context, sp *sim.Process, v *netmem.Volume) error {
		want := make([]byte, cfg.Bytes/2) // the other half is never written
		fill(want, 1, 1)
		if _, err := v.WriteAtContext(ctx, want, 0); err != nil {
			return err
		}
		want = append(want, make([]byte, cfg.Bytes/2)...)
		page, begun := make([]byte, 4096), sp.Runtime().Now()
		if _, err := v.ReadAtContext(ctx, page, 0); err != nil {
			return err
		}
		one := sp.Runtime().Now().Sub(begun)
		bufs, offsets := [][]byte{make([]byte, 2)}, []int64{cfg.Bytes - 1}
		for i := range int64(parts) {
			bufs, offsets = append(bufs, make([]byte, 4096)), append(offsets, i*5*4096+i)
		}
		pauses, ends := 0, 0
		begun = sp.Runtime().Now()
		v.ReadMany(ctx, bufs, offsets, func(i int, err error) {
			ends++
			if i == 0 != (err != nil) || i > 0 && !bytes.Equal(bufs[i], want[offsets[i]:][:4096]) {
				t.Errorf("part %d at %d: %v, or other bytes", i, offsets[i], err)
			}
		}, func() { pauses++ })
		if took := sp.Runtime().Now().Sub(begun); took > parts*one/2 {
			t.Errorf("%d parts take %v, and one page %v; expected half of as many times that at most", parts, took, one)
		}
		if ends != parts+1 || pauses >= ends {
			t.Errorf("%d parts have ended, with %d pauses; expected %d, and fewer pauses", ends, pauses, parts+1)
		}
		again := 0
		v.ReadMany(ctx, bufs, offsets, func(int, error) { again++ }, nil) // without beforeWait
		if again != ends {
			t.Errorf("%d parts have ended; expected %d", again, ends)
		}
		return nil
	})
}

func TestReadsInOrderAreReadAhead(t *testing.T) {
	took := map[int]time.Duration{}
	for _, ahead := range []int{-1, 16} {
		cfg := netmem.VolumeConfig{Bytes: 100 * 4096, ReadAhead: ahead}
		withVolume(t, 1, sim.Faults{}, cfg, 100, func(ctx context.Context, sp *sim.Process, v *netmem.Volume) error {
			want, got := make([]byte, cfg.Bytes), make([]byte, 1000)
			fill(want, 1, 1)
			if _, err := v.WriteAtContext(ctx, want, 0); err != nil {
				return err
			}
			begun := sp.Runtime().Now()
			for at := int64(0); at < cfg.Bytes; at += int64(len(got)) {
				n, err := v.ReadAtContext(ctx, got, at)
				if err != nil && (err != io.EOF || at+int64(n) != cfg.Bytes) || !bytes.Equal(got[:n], want[at:at+int64(n)]) {
					return fmt.Errorf("%d bytes at %d: %w, or other bytes", n, at, err)
				}
			}
			took[ahead] = sp.Runtime().Now().Sub(begun)
			return nil
		})
	}
	if took[16]*2 > took[-1] {
		t.Errorf("100 pages in order take %v, and %v when they are read ahead; expected half of it at most", took[-1], took[16])
	}
}

// withRow runs life with a volume of written pages. A reader has read three pages in a row, so
// the next pages are being read ahead.
func withRow(t *testing.T, life func(ctx context.Context, sp *sim.Process, v *netmem.Volume, read func(ctx context.Context, page int) error) error) {
	t.Helper()
	cfg := netmem.VolumeConfig{Bytes: 100 * 4096, ReadAhead: 16}
	withVolume(t, 1, sim.Faults{}, cfg, 100, func(ctx context.Context, sp *sim.Process, v *netmem.Volume) error {
		want, got := make([]byte, cfg.Bytes), make([]byte, 4096)
		fill(want, 1, 1)
		if _, err := v.WriteAtContext(ctx, want, 0); err != nil {
			return err
		}
		read := func(ctx context.Context, page int) error {
			at := int64(page) * 4096
			_, err := v.ReadAtContext(ctx, got, at)
			if err == nil && !bytes.Equal(got, want[at:at+4096]) {
				err = errors.New("other bytes")
			}
			if err != nil {
				return fmt.Errorf("page %d: %w", page, err)
			}
			return nil
		}
		for page := range 3 {
			if err := read(ctx, page); err != nil {
				return err
			}
		}
		return life(ctx, sp, v, read)
	})
}

// A page in flight is not free for other calls. Readers normally receive the pages that are read
// ahead, but perhaps no reader comes.
func TestPagesThatAreReadAheadInVainAreFreeSoon(t *testing.T) {
	withRow(t, func(ctx context.Context, sp *sim.Process, v *netmem.Volume, _ func(context.Context, int) error) error {
		ctx, cancel := sp.Runtime().WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := v.WriteAtContext(ctx, make([]byte, 12*4096), 4*4096)
		return err
	})
}

func TestAReaderWaitsForAPageThatIsReadAheadNoLongerThanItsContext(t *testing.T) {
	withRow(t, func(ctx context.Context, sp *sim.Process, v *netmem.Volume, read func(context.Context, int) error) error {
		for page := 3; page < 100; page++ {
			if err := read(ctx, page); err != nil {
				return err
			}
			if page != 10 { // after this page the next pages are requested
				continue
			}
			short, cancel := sp.Runtime().WithTimeout(ctx, time.Microsecond)
			if err := read(short, 19); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("a page that was asked for a microsecond ago: %v", err)
			}
			cancel()
		}
		if n := v.Stats().PageIns; n > 101 {
			return fmt.Errorf("100 pages were fetched by %d reads", n)
		}
		return nil
	})
}

// Fetches in flight end, and so does the goroutine that drives them, although no answer can
// arrive any more.
func TestAVolumeMayBeClosedWhilePagesAreReadAhead(t *testing.T) {
	for _, late := range []bool{false, true} {
		withRow(t, func(ctx context.Context, sp *sim.Process, v *netmem.Volume, read func(context.Context, int) error) error {
			for page := 3; page <= 10; page++ { // after this page the next pages are requested
				if err := read(ctx, page); err != nil {
					return err
				}
			}
			failed, ended := error(nil), !late
			if late {
				sp.Start("reader", func(*sim.Process) error {
					failed = read(ctx, 19)
					ended = true
					sp.Runtime().Wake()
					return nil
				})
				// The reader waits.
				if err := sp.Runtime().Sleep(ctx, time.Microsecond); err != nil {
					return err
				}
			}
			v.Close()
			if err := sp.Runtime().WaitUntil(ctx, func() bool { return ended }); err != nil {
				return err
			}
			// The page may have arrived meanwhile.
			if failed != nil && !errors.Is(failed, weft.ErrClosed) {
				return fmt.Errorf("a read of a volume that is closed: %w", failed)
			}
			return sp.Runtime().Sleep(ctx, 10*time.Millisecond) // for goroutines that have to end
		})
	}
}

// A read of several pages uses the pages that are read ahead, and drives no fetch. Another
// goroutine drives the fetches for it at once.
func TestPartsOfSeveralPagesWaitForPagesThatAreReadAhead(t *testing.T) {
	withRow(t, func(ctx context.Context, sp *sim.Process, v *netmem.Volume, _ func(context.Context, int) error) error {
		begun := sp.Runtime().Now()
		_, err := v.ReadAtContext(ctx, make([]byte, 8*4096), 4*4096)
		if took := sp.Runtime().Now().Sub(begun); took > time.Millisecond {
			return fmt.Errorf("pages that are under way came after %v", took)
		}
		return err
	})
}

// Each of several readers waits for pages that another reader has in flight.
func TestReadersInOrderAtOnceReadAhead(t *testing.T) {
	withRow(t, func(ctx context.Context, sp *sim.Process, v *netmem.Volume, _ func(context.Context, int) error) error {
		left, failed := 4, error(nil)
		for k := range left {
			sp.Start("reader", func(*sim.Process) error {
				buf := make([]byte, 1000)
				for at := int64(k) * 5000; at+1000 <= v.Size(); at += 1000 {
					if _, err := v.ReadAtContext(ctx, buf, at); err != nil {
						failed = fmt.Errorf("reader %d at %d: %w", k, at, err)
						break
					}
				}
				left--
				sp.Runtime().Wake()
				return nil
			})
		}
		return errors.Join(sp.Runtime().WaitUntil(ctx, func() bool { return left == 0 }), failed)
	})
}

func TestOfAVolumeOnlyWhatWasWrittenIsKept(t *testing.T) {
	cfg := netmem.VolumeConfig{Bytes: 1 << 20}
	withVolume(t, 1, sim.Faults{}, cfg, 100, func(ctx context.Context, sp *sim.Process, v *netmem.Volume) error {
		for _, at := range []int64{0, 5000, 9*4096 + 4095} {
			if _, err := v.WriteAtContext(ctx, []byte{1, 2}, at); err != nil {
				return err
			}
		}
		// half of one page, and all of another
		if err := v.Discard(ctx, 10*4096-8, 4096+8); err != nil {
			return err
		}
		said := ""
		err := v.Written(100, 50000, func(offset, n int64, written bool) bool {
			said += fmt.Sprintf("%d+%d %v; ", offset, n, written)
			return true
		})
		if want := "100+3996 true; 4096+4096 true; 8192+28672 false; 36864+4096 true; 40960+9140 false; "; said != want || err != nil {
			return fmt.Errorf("%q, want %q (%v)", said, want, err)
		}
		if st := v.Stats(); st.Pages != 3 {
			return fmt.Errorf("%d pages are kept, want 3", st.Pages)
		}
		if err := v.Discard(ctx, 0, cfg.Bytes); err != nil {
			return err
		}
		if st := v.Stats(); st.Pages != 0 {
			return fmt.Errorf("%d pages are kept of a volume that was discarded", st.Pages)
		}
		return nil
	})
}

func TestVolumesThatCannotBeAreRefusedWithTheNumbers(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 4})
	all, _ := servers(f, 2, 10)
	small := netmem.ServerRef{Name: weft.Name{App: "small"}}
	startServer(f, 3, small.Name, 4)
	all = append(all, small)
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		for _, c := range []struct {
			bytes    int64
			copies   int
			want     string
			compress bool
		}{
			{5000, 1, "a volume of 5000 bytes; expected a multiple of 4096", false},
			{0, 1, "a volume of 0 bytes; expected a multiple of 4096", false},
			{4096, 4, "4 copies of a page on 3 servers; expected 1 to 3", false},
			{24*8192 + 4096, 1, "a volume of 200704 bytes, in copies: 1, on servers: 3; they have room for 196608", false},
			{12*8192 + 4096, 2, "in copies: 2, on servers: 3; they have room for 98304", false},
			// as much as the smallest server
			{4*8192 + 4096, 3, "in copies: 3, on servers: 3; they have room for 32768", false},
			{24 * 8192, 1, "", false},
			{12 * 8192, 2, "", false},
			{4 * 8192, 3, "", false},
			{96 * 8192, 1, "", true},
			{96*8192 + 4096, 1, "a volume of 790528 bytes, in copies: 1, on servers: 3; they have room for 786432 that compress to 1/4", true},
		} {
			cfg := netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Servers: all, Copies: c.copies, Compress: c.compress}, Bytes: c.bytes}
			v, err := netmem.Open(ctx, sp.Weft(), cfg)
			if err == nil {
				v.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				return fmt.Errorf("%d bytes in %d copies: %v; want %q", c.bytes, c.copies, err, c.want)
			}
		}
		if _, err := netmem.NewClient(ctx, sp.Weft(), netmem.ClientConfig{}); err == nil || err.Error() != "netmem: no servers; expected at least one" {
			return fmt.Errorf("a client without servers: %v", err)
		}
		v, err := netmem.Open(ctx, sp.Weft(), netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Servers: all}, Bytes: 8192})
		if err != nil {
			return err
		}
		if _, err := v.WriteAtContext(ctx, make([]byte, 10), 8190); err == nil || err.Error() != "netmem: write 10 bytes at 8190; the volume has 8192" {
			return fmt.Errorf("a write beyond the end: %v", err)
		}
		if n, err := v.ReadAtContext(ctx, make([]byte, 10), 8190); n != 2 || err != io.EOF {
			return fmt.Errorf("a read beyond the end: %d, %v", n, err)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
}
