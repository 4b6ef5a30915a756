package netmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
	"github.com/weftnet/weft/sim"
)

// A server of ten pages with a file of thirty stores forty, and reports how many are in each.
// Nothing remains of the file.
func TestAServerSpillsWhatItHasNoRoomFor(t *testing.T) {
	dir := t.TempDir()
	f := sim.New(sim.Config{Seed: 1, NICs: 2, Faults: sim.Faults{Loss: 0.02}})
	name := weft.Name{App: "mem"}
	over := false
	f.Process(1, name.String(), func(sp *sim.Process) error {
		s, err := netmem.Serve(sp.Weft(), netmem.ServerConfig{Bytes: 10 * 8192, Spill: filepath.Join(dir, "spill"), SpillBytes: 30 * 8192})
		if err != nil {
			return err
		}
		defer s.Close()
		return sp.Runtime().WaitUntil(context.Background(), func() bool { return over })
	})
	f.Process(0, "client/0", func(sp *sim.Process) error {
		defer func() { over = true }()
		p, ctx := sp.Weft(), context.Background()
		v, err := netmem.Open(ctx, p, netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Servers: []netmem.ServerRef{{Name: name}}}, Bytes: 40 * 8192})
		if err != nil {
			return err
		}
		defer v.Close()
		want, got := make([]byte, v.Size()), make([]byte, v.Size())
		for round := range uint64(3) {
			fill(want, 7, round)
			if _, err := v.WriteAtContext(ctx, want, 0); err != nil {
				return err
			}
			if _, err := v.ReadAtContext(ctx, got, 0); err != nil || !bytes.Equal(got, want) {
				return fmt.Errorf("round %d: %w, or other bytes", round, err)
			}
		}
		st, err := netmem.Stat(ctx, p, name)
		if err != nil || st.UsedBytes != 40*8192 || st.SpillBytes != 30*8192 || st.SpillUsed != 30*8192 || st.SpillOut == 0 || st.SpillIn == 0 || st.SpillFailed != 0 {
			return fmt.Errorf("%+v (%w) of a full server", st, err)
		}
		return nil
	})
	if err := f.Run(time.Hour); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
}

func TestSpillFilesThatCannotBeUsedAreRefusedAndStay(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.WriteFile(full, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := sim.New(sim.Config{Seed: 1, NICs: 1})
	f.Process(0, "mem/0", func(sp *sim.Process) error {
		for _, c := range []struct {
			file string
			n    int64
			want string
		}{
			{full, 8192, "spill file " + full + ": it has something in it; expected a new file, or an empty one: 8 bytes"},
			{dir, 8192, "spill file " + dir + ": open " + dir + ": is a directory"},
			{"/dev/null", 8192, "it is a device, a pipe or a socket; expected an ordinary file"},
			{filepath.Join(dir, "no/such"), 8192, "no such file or directory"},
			{"/proc/version", 8192, "spill file /proc/version: "},
			{empty, 1 << 60, "spill file " + empty + ": 1152921504606846976 bytes; the filesystem has "},
			{filepath.Join(dir, "new"), 1 << 60, "1152921504606846976 bytes; the filesystem has "},
			{empty, 8193, "of 8193 bytes; expected a file, and a multiple of 8192"},
			{"", 8192, `a spill file "" of 8192 bytes; expected a file`},
		} {
			s, err := netmem.Serve(sp.Weft(), netmem.ServerConfig{Bytes: 8192, Spill: c.file, SpillBytes: c.n})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				return fmt.Errorf("%d bytes in %q: %v; want %q", c.n, c.file, err, c.want)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(full); string(b) != "precious" || err != nil {
		t.Errorf("the file that was refused has %q (%v)", b, err)
	}
	if b, err := os.ReadFile(empty); len(b) != 0 || err != nil {
		t.Errorf("the empty file that was refused has %d bytes (%v)", len(b), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that was refused was made: %v", err)
	}
}
