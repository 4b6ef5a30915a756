package netmem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// slowFile is a file on a disk that is slow or fails.
type slowFile struct {
	file
	p      *weft.Process
	takes  time.Duration
	broken bool
}

func (f *slowFile) ReadAt(b []byte, at int64) (int, error) {
	_ = sleep(f.p, f.takes)
	return f.file.ReadAt(b, at)
}

var errDisk = errors.New("the disk is broken")

func (f *slowFile) WriteAt(b []byte, at int64) (int, error) {
	_ = sleep(f.p, f.takes)
	if f.broken {
		return 0, errDisk
	}
	return f.file.WriteAt(b, at)
}

// onSlowDisk runs life with a server of 8 pages in memory and 16 in a file. 20 pages are written.
// Page i is filled with byte i.
func onSlowDisk(t *testing.T, life func(ctx context.Context, c *Client, s *Server, disk *slowFile) error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	name := weft.Name{App: "memory"}
	var server *Server
	var disk *slowFile
	f.Serve(1, name.String(), func(sp *sim.Process) (err error) {
		server, err = Serve(sp.Weft(), ServerConfig{Bytes: 8 * 8192, Spill: filepath.Join(t.TempDir(), "spill"), SpillBytes: 16 * 8192})
		if err != nil {
			return err
		}
		disk = &slowFile{file: server.store.spill.f, p: sp.Weft()}
		server.store.spill.f = disk
		return sleep(sp, time.Hour)
	})
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx := context.Background()
		c, err := NewClient(ctx, sp.Weft(), ClientConfig{Servers: []ServerRef{{Name: name}}, PageBytes: 8192})
		if err != nil {
			return err
		}
		defer c.Close()
		for i := range uint64(20) {
			if err := c.WritePage(ctx, i, bytes.Repeat([]byte{byte(i)}, 8192)); err != nil {
				return err
			}
		}
		sleep(sp, time.Second)
		return life(ctx, c, server, disk)
	})
	if err := f.Run(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := server.store.spill.close(); err != nil {
		t.Error(err)
	}
}

// parts returns the pages of a server that are in memory, and those in its file.
func (s *Server) parts() (here, away []uint64) {
	for p := range s.store.all() {
		k := p.key
		if p.data != nil {
			here = append(here, k.page)
		} else {
			away = append(away, k.page)
		}
	}
	return here, away
}

// reads reads a page within the given time.
func reads(ctx context.Context, c *Client, page uint64, in time.Duration) error {
	within, cancel := c.p.Runtime().WithTimeout(ctx, in)
	defer cancel()
	buf := make([]byte, 8192)
	if err := c.ReadPage(within, page, buf); err != nil {
		return err
	}
	if !bytes.Equal(buf, bytes.Repeat([]byte{byte(page)}, 8192)) {
		return fmt.Errorf("page %d reads with other bytes", page)
	}
	return nil
}

// While a disk reads and writes for seconds, pages in memory are read and written at once.
func TestASlowDiskHoldsUpOnlyWhatIsThere(t *testing.T) {
	onSlowDisk(t, func(ctx context.Context, c *Client, s *Server, disk *slowFile) error {
		here, away := s.parts()
		if len(here) != 8 || len(away) != 12 {
			return fmt.Errorf("%d pages are in memory and %d in the file, want 8 and 12", len(here), len(away))
		}
		disk.takes = 5 * time.Second
		over, slow := false, error(nil)
		c.p.Runtime().Go(func() {
			slow = reads(ctx, c, away[0], time.Minute)
			over = true
			c.p.Runtime().Wake()
		})
		for round := range 3 {
			for _, page := range here {
				if err := reads(ctx, c, page, time.Second); err != nil {
					return fmt.Errorf("page %d, which is in memory: %w", page, err)
				}
				within, cancel := c.p.Runtime().WithTimeout(ctx, time.Second)
				err := c.WritePage(within, page, bytes.Repeat([]byte{byte(page)}, 8192))
				cancel()
				if err != nil {
					return fmt.Errorf("page %d, which is in memory: %w", page, err)
				}
			}
			if over {
				return fmt.Errorf("round %d: a read of a disk that takes 5 s is over (%w)", round, slow)
			}
		}
		if err := c.p.Runtime().WaitUntil(ctx, func() bool { return over }); err != nil {
			return err
		}
		return slow
	})
}

// Pages that a broken disk does not accept stay in memory. Then the server is full, and nothing
// is lost.
func TestADiskThatFailsLosesNothing(t *testing.T) {
	onSlowDisk(t, func(ctx context.Context, c *Client, s *Server, disk *slowFile) error {
		disk.broken = true
		full := false
		for i := uint64(20); i < 24 && !full; i++ {
			within, cancel := c.p.Runtime().WithTimeout(ctx, time.Minute)
			err := c.WritePage(within, i, bytes.Repeat([]byte{byte(i)}, 8192))
			cancel()
			if full = errors.Is(err, ErrFull); !full && err != nil {
				return err
			}
		}
		if st := s.Stats(); !full || st.SpillFailed == 0 {
			return fmt.Errorf("%+v: want a full server, and writes of its disk that failed", st)
		}
		for i := range uint64(20) {
			if err := reads(ctx, c, i, time.Minute); err != nil {
				return fmt.Errorf("page %d: %w", i, err)
			}
		}
		disk.broken = false
		for i := uint64(20); i < 24; i++ {
			err := c.WritePage(ctx, i, bytes.Repeat([]byte{byte(i)}, 8192))
			for errors.Is(err, ErrFull) { // until a write has shown that the disk works again
				if err := c.p.Runtime().Sleep(ctx, 100*time.Millisecond); err != nil {
					return err
				}
				err = c.WritePage(ctx, i, bytes.Repeat([]byte{byte(i)}, 8192))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A request for a page in the file waits for the disk. Afterwards its place is free for the next
// request, so no client retransmits, however many pages are read back.
func TestEachReadOfAPageInTheFileWaitsForIt(t *testing.T) {
	onSlowDisk(t, func(ctx context.Context, c *Client, s *Server, _ *slowFile) error {
		before, read := c.Stats().Repeated, 0
		for read <= 2*maxParked {
			_, away := s.parts()
			for _, page := range away {
				if err := reads(ctx, c, page, time.Minute); err != nil {
					return err
				}
				read++
			}
		}
		if st := c.Stats(); st.Repeated != before || s.Stats().SpillIn == 0 {
			return fmt.Errorf("%d reads took %d retransmissions and %d reads of the disk; expected no retransmission", read, st.Repeated-before, s.Stats().SpillIn)
		}
		s.port.mu.Lock()
		defer s.port.mu.Unlock()
		if s.parked != 0 {
			return fmt.Errorf("%d requests count as waiting after all reads", s.parked)
		}
		return nil
	})
}
