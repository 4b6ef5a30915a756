package daemon_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"golang.org/x/sys/unix"
)

// The daemon makes the memory that Alloc returns, and reaches no private memory of a process. It
// makes it of huge pages if asked and if there are some, and counts them whole.
func TestMemoryOfAttachedProcessesIsTheDaemons(t *testing.T) {
	c := configs(t, 1)[0]
	c.RegionBytes = 6 << 20
	run(t, c)
	b, a := mustAttach(t, c, "b/0"), mustAttach(t, c, "a/0")
	if _, err := b.Register(make([]byte, 100), weft.ReadWrite); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "cannot reach") || !strings.Contains(err.Error(), "RegisterFile") {
		t.Errorf("memory of the process's own: %v", err)
	}
	if _, err := b.AllocHuge(7 << 20); !errors.Is(err, weft.ErrNoMemory) || !strings.Contains(err.Error(), "region_bytes") {
		t.Errorf("more than a process may have: %v", err)
	}
	r, err := b.AllocHuge(3 << 20)
	if err != nil {
		if !errors.Is(err, weft.ErrNoMemory) || !strings.Contains(err.Error(), "huge pages") {
			t.Errorf("huge pages that are not there: %v", err)
		}
		return
	}
	if err := a.Put(t.Context(), r.Handle(), 3<<20-4, []byte("last")); err != nil || string(r.Bytes()[3<<20-4:]) != "last" {
		t.Errorf("put to the end of huge pages: %v", err)
	}
	if _, err := b.Alloc(2<<20 + 1); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("what is left over of the last huge page is not counted: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r, err = b.AllocHuge(3 << 20); err != nil {
		t.Errorf("again: %v", err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// memfd returns sealable memory of the given size, with these seals. It skips the test if the
// system cannot provide it.
func memfd(t *testing.T, size, flags, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("weft test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err != nil {
		t.Skip(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	seal(t, f, seals)
	return f
}

func seal(t *testing.T, f *os.File, seals int) {
	t.Helper()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
}

// Memory of a process is a region of a daemon's NIC, too: it is the same memory wherever it is
// mapped, with the rights and shares of any region.
func TestMemoryOfAProcessesOwnIsARegionAtADaemon(t *testing.T) {
	c := configs(t, 2)
	run(t, c...)
	a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
	if _, err := a.WaitName(t.Context(), b.Name()); err != nil {
		t.Fatal(err)
	}
	const offset, size = 5000, 100_001
	f := memfd(t, 200_000, 0, unix.F_SEAL_SHRINK)
	r, err := b.RegisterFile(f, offset, size, weft.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("memory, "), 20_000)[:size]
	if err := a.Put(t.Context(), r.Handle(), 0, data); err != nil || !bytes.Equal(r.Bytes(), data) {
		t.Fatalf("put: %v; the bytes are there: %v", err, bytes.Equal(r.Bytes(), data))
	}
	back := make([]byte, size)
	if _, err := f.ReadAt(back, offset); err != nil || !bytes.Equal(back, data) {
		t.Errorf("the memory itself has not what was put: %v", err)
	}
	share, err := r.Share(100, 5, weft.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Get(t.Context(), share.Handle(), 0, back[:5]); err != nil || !bytes.Equal(back[:5], data[100:105]) {
		t.Errorf("get by a share: %q, %v", back[:5], err)
	}
	if err := a.Put(t.Context(), share.Handle(), 0, []byte("x")); !errors.Is(err, weft.ErrRegion) {
		t.Errorf("put by a share that is ReadOnly: %v", err)
	}
	sent := make(chan error, 1)
	go func() { sent <- b.Peer(a.Name()).SendDelivered(t.Context(), 1, r.Bytes()) }()
	if m, err := a.Recv(t.Context(), b.Name(), 1, back); err != nil || m.Len != size || !bytes.Equal(back, data) {
		t.Errorf("a message from there: %v, %v", m, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	// the same memory once more, with other rights
	served, err := b.RegisterFile(f, offset, size, weft.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Get(t.Context(), served.Handle(), 0, back); err != nil || !bytes.Equal(back, data) {
		t.Errorf("get: %v", err)
	}
	if err := a.Put(t.Context(), served.Handle(), 0, back); !errors.Is(err, weft.ErrRegion) {
		t.Errorf("put into what is ReadOnly: %v", err)
	}
	if err := b.Get(t.Context(), served.Handle(), 0, served.Bytes()); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("get into what is ReadOnly: %v", err)
	}
	for _, r := range []*weft.Region{r, served, r} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := a.Put(t.Context(), r.Handle(), 0, data); !errors.Is(err, weft.ErrRegion) {
			t.Errorf("put into what is closed: %v", err)
		}
	}
}

// Memory sealed against writing is accepted. Memory that could go away, or be slow to arrive, is
// refused; the error says what would be accepted, and the process goes on.
func TestADaemonTakesMemoryThatLastsAndNoOther(t *testing.T) {
	c := configs(t, 1)[0]
	c.RegionBytes = 1 << 20
	run(t, c)
	a, b := mustAttach(t, c, "a/0"), mustAttach(t, c, "b/0")
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	if err := disk.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	lasts, shrinks := memfd(t, 1<<21, 0, unix.F_SEAL_SHRINK), memfd(t, 4096, 0, 0)
	for _, m := range []struct {
		what string
		f    *os.File
		n    int
		is   error
		says string
	}{
		{"a file of a disk", disk, 4096, weft.ErrBadArgument, "memfd_create"},
		{"what can be made shorter", shrinks, 4096, weft.ErrBadArgument, "F_SEAL_SHRINK"},
		{"more than there is", lasts, 1<<21 + 1, weft.ErrBadArgument, "it has 2097152 bytes"},
		{"more than the quota", lasts, 1<<20 + 1, weft.ErrNoMemory, "region_bytes"},
	} {
		if _, err := b.RegisterFile(m.f, 0, m.n, weft.ReadOnly); !errors.Is(err, m.is) || !strings.Contains(err.Error(), m.says) {
			t.Errorf("%s: %v; expected %v, with %q", m.what, err, m.is, m.says)
		}
	}
	all, err := b.RegisterFile(lasts, 0, 1<<20, weft.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Alloc(1); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("memory beyond the quota, of which all is registered: %v", err)
	}
	if err := all.Close(); err != nil {
		t.Fatal(err)
	}
	still := memfd(t, 4096, 0, unix.F_SEAL_SHRINK)
	if _, err := still.WriteAt([]byte("still"), 0); err != nil {
		t.Fatal(err)
	}
	seal(t, still, unix.F_SEAL_WRITE)
	if _, err := b.RegisterFile(still, 0, 4096, weft.ReadWrite); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "sealed against writing") {
		t.Errorf("what is sealed against writing, to be written: %v", err)
	}
	r, err := b.RegisterFile(still, 0, 4096, weft.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 5)
	if err := a.Get(t.Context(), r.Handle(), 0, back); err != nil || string(back) != "still" {
		t.Errorf("get of what is sealed against writing: %q, %v", back, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Huge pages of a process are mapped and counted whole.
func TestHugePagesOfAProcessesOwnAreARegion(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	a, b := mustAttach(t, c, "a/0"), mustAttach(t, c, "b/0")
	f := memfd(t, 4<<20, unix.MFD_HUGETLB, unix.F_SEAL_SHRINK)
	r, err := b.RegisterFile(f, 2<<20-100, 200, weft.ReadWrite) // across a border of two
	if err != nil {
		if !errors.Is(err, weft.ErrNoMemory) || !errors.Is(err, unix.ENOMEM) {
			t.Errorf("huge pages that are not there: %v", err)
		}
		return
	}
	if err := a.Put(t.Context(), r.Handle(), 98, []byte("border")); err != nil || string(r.Bytes()[98:104]) != "border" {
		t.Errorf("put across the border of two huge pages: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A process whose library does not check what it sends loses its connection. The daemon goes on,
// and keeps no descriptor. Memory that the daemon has accepted stays, whatever the process tries.
func TestADaemonOutlivesAProcessThatSendsItBadMemory(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	a := mustAttach(t, c, "a/0")
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	for i, f := range []*os.File{disk, memfd(t, 4096, 0, 0)} {
		conn, err := ctl.Dial(t.Context(), c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		bad, err := conn.Attach(t.Context(), "bad/0", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := bad.Register(t.Context(), int(f.Fd()), 0, 4096, false); !errors.Is(err, ctl.ErrBadRequest) {
			t.Errorf("bad memory %d: %v", i, err)
		}
		if _, _, _, err := bad.Alloc(t.Context(), 4096, false); err == nil {
			t.Error("a process that has sent bad memory goes on")
		}
		if err := errors.Join(bad.Close(), bad.Unmap()); err != nil {
			t.Error(err)
		}
		for begun := time.Now(); slices.Contains(namesAt(t, c), "bad/0"); time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatal("the process has not ended")
			}
		}
	}
	b := mustAttach(t, c, "b/0")
	f := memfd(t, 1<<20, 0, unix.F_SEAL_SHRINK)
	r, err := b.RegisterFile(f, 0, 1<<20, weft.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Put(t.Context(), r.Handle(), 0, bytes.Repeat([]byte{1}, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("the memory is taken away: %v", err)
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20); err != nil {
		t.Fatal(err)
	}
	back := bytes.Repeat([]byte{2}, 1<<20)
	if err := a.Get(t.Context(), r.Handle(), 0, back); err != nil || !bytes.Equal(back, make([]byte, 1<<20)) {
		t.Errorf("get of memory of which the pages were given back: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A daemon refuses with the same errors as a NIC inside the program: for a region or share too
// many, and for a region in use.
func TestRegionsOfAttachedProcessesAreRefusedByErrorsToTestFor(t *testing.T) {
	c := configs(t, 1)[0]
	run(t, c)
	p := mustAttach(t, c, "a/0")
	r, err := p.Alloc(8192)
	if err != nil {
		t.Fatal(err)
	}
	var op weft.Op
	if err := p.StartRecv(&op, p.Name(), 1, r.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); !errors.Is(err, weft.ErrRegionInUse) {
		t.Errorf("a receive into the region was started, and it is closed: %v; expected ErrRegionInUse", err)
	}
	var s *weft.Share
	for n := 1; n < 1024; n++ {
		if s, err = r.Share(n, 1, weft.ReadOnly); err != nil {
			t.Fatalf("share %d: %v", n, err)
		}
	}
	if _, err := r.Share(0, 1, weft.ReadOnly); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("a share too many: %v; expected ErrNoMemory", err)
	}
	if _, err := p.Alloc(100); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("a region too many: %v; expected ErrNoMemory", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Alloc(100); err != nil {
		t.Errorf("a region where there is room again: %v", err)
	}
	if err := p.Send(t.Context(), p.Name(), 1, []byte("end")); err != nil {
		t.Error(err)
	}
	if _, err := op.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("the receive has ended: %v", err)
	}
}
