package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// runDaemon runs a daemon of a configuration until the test ends.
func runDaemon(t *testing.T, c Config) *Daemon {
	t.Helper()
	c.Socket, c.Listen = filepath.Join(t.TempDir(), "nic.sock"), "127.0.0.1:0"
	d, err := New(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *Daemon) attachment(t *testing.T, name string, g *ctl.Geometry) (*ctl.Attachment, error) {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	a, err := conn.Attach(t.Context(), name, g)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	t.Cleanup(func() { a.Close(); a.Unmap() })
	return a, nil
}

// A process that has gone keeps its mapping. No other process may get that memory, not even
// scrubbed: the former process would see the data of its successor.
func TestNobodyIsGivenTheMemoryOfAProcessThatHasGone(t *testing.T) {
	const prepared = 4
	d := runDaemon(t, Config{VNI: &VNIs{Prepared: prepared}})
	old, err := d.attachment(t, "old/0", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range old.RW {
		old.RW[i] = 0xa5
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	from, to := d.settings.usual.PoolRange()
	for i := range 3 * prepared {
		a, err := d.attachment(t, fmt.Sprintf("new/%d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(a.RW, []byte{0xa5}); n != 0 {
			t.Fatalf("process %d finds %d bytes of the one that has gone", i, n)
		}
		a.RW[from], a.RW[to-1] = 1, 2
		if old.RW[from] != 0xa5 || old.RW[to-1] != 0xa5 {
			t.Fatalf("the process that has gone sees what process %d writes", i)
		}
		old.RW[from+1] = 0x5a
		if a.RW[from+1] != 0 {
			t.Fatalf("process %d sees what the process that has gone writes", i)
		}
		old.RW[from+1] = 0xa5
		if i%2 == 0 {
			a.Close()
		}
	}
}

func TestVNIsAreMadeBeforehandAndMoreAsTheyAreNeeded(t *testing.T) { // QNIX-2, QNIX-4
	d := runDaemon(t, Config{VNI: &VNIs{Prepared: 3}})
	want := func(when string, idle, used, onFly int) {
		t.Helper()
		var got ctl.VNIs
		d.vnis.segment(&got)
		if got.Idle != idle || got.Used != used || got.OnTheFly != onFly {
			t.Errorf("%s: %+v; want %d idle, %d used, %d of them made on the fly", when, got, idle, used, onFly)
		}
	}
	want("at first", 3, 0, 0)
	var all []*ctl.Attachment
	for i := range 5 {
		a, err := d.attachment(t, fmt.Sprintf("p/%d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	want("with five processes", 0, 5, 2)
	small, err := d.attachment(t, "small/0", &ctl.Geometry{Contexts: 16, PoolPages: 1})
	if err != nil {
		t.Fatal(err)
	}
	want("with one of another geometry", 0, 6, 3)
	all[4].Close()
	all[3].Close()
	want("when two have gone", 0, 4, 1)
	all[0].Close()
	small.Close()
	want("when one of those made beforehand has gone", 1, 2, 0)
}

// Idle VNIs cost address space, file descriptors and table entries, but no pages.
func TestIdleVNIsHaveNoPages(t *testing.T) {
	var v vnis
	if err := v.prepare(vni.DefaultGeometry(false), limits.Processes); err != nil {
		t.Fatal(err)
	}
	defer v.close()
	for i, m := range v.idle {
		for _, part := range []*memory{m.rw, m.ro} {
			var st unix.Stat_t
			if err := unix.Fstat(part.fd, &st); err != nil {
				t.Fatal(err)
			}
			if st.Blocks != 0 {
				t.Fatalf("VNI %d has %d bytes of memory", i, 512*st.Blocks)
			}
		}
	}
}

func TestAProcessGetsTheGeometryThatItAsksFor(t *testing.T) { // QNIX-61
	d := runDaemon(t, Config{VNI: &VNIs{Contexts: 32, Commands: 128, MaxContexts: 200, MaxCommands: 800, MaxPoolPages: 512}})
	for _, c := range []struct {
		asked *ctl.Geometry
		got   vni.Geometry
		err   string
	}{
		{nil, vni.Geometry{Commands: 128, Contexts: 32, Descriptors: 16, PoolPages: 256}, ""},
		{&ctl.Geometry{Contexts: 200}, vni.Geometry{Commands: 800, Contexts: 200, Descriptors: 16, PoolPages: 256}, ""},
		{&ctl.Geometry{Commands: 64, Contexts: 8, Descriptors: 1, PoolPages: 512}, vni.Geometry{Commands: 64, Contexts: 8, Descriptors: 1, PoolPages: 512}, ""},
		{&ctl.Geometry{Contexts: 201}, vni.Geometry{}, "201 contexts (M); this NIC permits 1 to 200"},
		{&ctl.Geometry{Contexts: -1}, vni.Geometry{}, "-1 contexts (M); this NIC permits 1 to 200"},
		{&ctl.Geometry{Commands: 808}, vni.Geometry{}, "808 commands (N); this NIC permits 16 to 800"},
		{&ctl.Geometry{Descriptors: 17}, vni.Geometry{}, "17 descriptors (K); this NIC permits 1 to 16"},
		{&ctl.Geometry{PoolPages: 513}, vni.Geometry{}, "513 pool pages (Q); this NIC permits 1 to 512"},
		{&ctl.Geometry{Commands: 48, Contexts: 32}, vni.Geometry{}, "48 commands for 32 contexts: expected 64 or more, two for each"},
	} {
		a, err := d.attachment(t, "p/0", c.asked)
		if c.err != "" {
			if !errors.Is(err, ctl.ErrBadRequest) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v; want %q", c.asked, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.asked, err)
			continue
		}
		seg, err := vni.OpenSegment(a.RW, a.RO)
		if err != nil {
			t.Fatal(err)
		}
		if g := seg.Geometry(); !sameSizes(g, c.got) {
			t.Errorf("%+v: got %+v; want %+v", c.asked, g, c.got)
		}
		a.Close()
	}
}

func TestAShortageOfFileDescriptorsIsExplained(t *testing.T) {
	err := explainFiles(fmt.Errorf("shared memory: %w", unix.EMFILE))
	if !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("%v", err)
	}
	if limit, err := raiseFiles(100); err != nil || limit < 100 {
		t.Errorf("a limit of %d, %v", limit, err)
	}
}
