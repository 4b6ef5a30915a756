//go:build unix

package touch_test

import (
	"os"
	"testing"
	"unsafe"

	"github.com/weftnet/weft/internal/memory/touch"
	"golang.org/x/sys/unix"
)

func mapped(t *testing.T, pages int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// The parts begin and end at each byte of three pages. A page that is not accessible must be
// found by exactly those parts that contain a byte of it.
func TestAPageThatCannotBeUsedIsFoundByEveryPartThatTouchesIt(t *testing.T) {
	for _, c := range []struct {
		name             string
		protection       int
		readable, writes bool
	}{{"none", unix.PROT_NONE, false, false}, {"read-only", unix.PROT_READ, true, false}, {"whole", unix.PROT_READ | unix.PROT_WRITE, true, true}} {
		page := os.Getpagesize()
		b := mapped(t, 3)
		for i := range b {
			b[i] = byte(i)
		}
		if err := unix.Mprotect(b[page:2*page], c.protection); err != nil {
			t.Fatal(err)
		}
		for from := 0; from < len(b); from += 1 + page/7 {
			for to := from; to <= len(b); to += 1 + page/5 {
				in := from < 2*page && to > page && to > from
				for written, usable := range map[bool]bool{false: c.readable, true: c.writes} {
					addr, ok := touch.All(b[from:to], written)
					if want := usable || !in; ok != want {
						t.Fatalf("%s, written %v: bytes %d to %d are said to be usable: %v, expected %v", c.name, written, from, to, ok, want)
					}
					base := uintptr(unsafe.Pointer(&b[0]))
					if !ok && (addr < base+uintptr(page) || addr >= base+uintptr(2*page)) {
						t.Fatalf("%s: the fault is said to be %#x beyond the start, not in the second page", c.name, addr-base)
					}
				}
			}
		}
		if err := unix.Mprotect(b[page:2*page], unix.PROT_READ); err != nil {
			t.Fatal(err)
		}
		for i := range b {
			if b[i] != byte(i) {
				t.Fatalf("byte %d has changed", i)
			}
		}
	}
}

func TestMemoryThatIsGoneIsFoundAndAnEmptySliceIsFine(t *testing.T) {
	b := mapped(t, 1)
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
	for _, written := range []bool{false, true} {
		if _, ok := touch.All(b, written); ok {
			t.Errorf("written %v: memory that is unmapped is said to be there", written)
		}
	}
	if _, ok := touch.All(nil, true); !ok {
		t.Error("no memory is said not to be there")
	}
}

func BenchmarkOnePage(b *testing.B) {
	mem := make([]byte, 64)
	for b.Loop() {
		touch.All(mem, true)
	}
}
