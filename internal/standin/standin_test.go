//go:build linux && (amd64 || arm64)

package standin

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// pages maps n pages with the protection prot, and guards them.
func pages(t *testing.T, n, prot int) ([]byte, *Memory) {
	t.Helper()
	size := n * os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, size, prot, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Guard(mem)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Release()
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return mem, m
}

func TestAnAccessToMemoryThatIsNotThereIsDoneAgainOnZeros(t *testing.T) {
	for _, writes := range []bool{false, true} {
		mem, m := pages(t, 4, unix.PROT_READ|unix.PROT_WRITE)
		page := len(mem) / 4
		copy(mem[page:], bytes.Repeat([]byte{7}, 3*page))
		if err := unix.Mprotect(mem[2*page:], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		before, other := Faults(), bytes.Repeat([]byte{9}, 2*page)
		if at := m.Fault(); at != 0 {
			t.Errorf("a fault at %#x before there was one", at)
		}
		to, from := other, mem[page:3*page]
		if writes {
			to, from = from, to
		}
		if n := copy(to, from); n != 2*page {
			t.Errorf("%d bytes are copied", n)
		}
		if last := to[2*page-1]; writes && last != 9 || !writes && last != 0 {
			t.Errorf("the copy ends with %d", last)
		}
		if m.Fault() == 0 || Faults() != before+1 {
			t.Errorf("the fault is at %#x, and %d are counted", m.Fault(), Faults()-before)
		}
		mem[0], mem[4*page-1] = 1, 1 // all of it is usable
	}
}

func TestAPageThatTheKernelHasNotGotIsZeros(t *testing.T) { // SIGBUS
	fd, err := unix.MemfdCreate("standin", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	size := 2 * os.Getpagesize()
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	m, err := Guard(mem)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	mem[0] = 1
	if err := unix.Ftruncate(fd, int64(size/2)); err != nil {
		t.Fatal(err)
	}
	if mem[size-1]++; mem[size-1] != 1 || mem[0] != 0 || m.Fault() == 0 {
		t.Errorf("the byte that was not there is %d, another is %d, the fault at %#x", mem[size-1], mem[0], m.Fault())
	}
}

func TestMemoryThatMayOnlyBeReadCanBeWrittenAfterAFault(t *testing.T) {
	mem, m := pages(t, 1, unix.PROT_READ)
	mem[5]++
	if mem[5] != 1 || m.Fault() == 0 {
		t.Errorf("the byte is %d, and the fault at %#x", mem[5], m.Fault())
	}
}

func TestOtherFaultsGoTheirWay(t *testing.T) {
	_, m := pages(t, 1, unix.PROT_NONE)
	m.Release()
	defer func() { m, _ = Guard(nil) }() // for the clean-up
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for what, access := range map[string]func(){"memory that is not guarded": func() { mem[0]++ }, "nil": func() { *(*int)(nil)++ }} {
		if fmt.Sprint(panics(access)) == "<nil>" {
			t.Errorf("a fault in %s is no panic", what)
		}
	}
}

func panics(f func()) (why any) {
	defer func() { why = recover() }()
	f()
	return nil
}

func TestAnEntryIsUsedAgain(t *testing.T) {
	_, m := pages(t, 1, unix.PROT_NONE)
	entries := func() (n int) {
		for e := list.Load(); e != nil; e = e.next {
			n++
		}
		return n
	}
	before := entries()
	for range 10 {
		o, err := Guard(make([]byte, 1))
		if err != nil || o == m {
			t.Fatal(o == m, err)
		}
		o.Release()
	}
	if n := entries(); n > before+1 {
		t.Errorf("%d entries, and then %d", before, n)
	}
}
