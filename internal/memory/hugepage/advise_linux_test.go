package hugepage

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeBytes returns the number of bytes of the process's anonymous memory that lie in huge pages.
func hugeBytes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	kib := regexp.MustCompile(`(?m)^AnonHugePages: *(\d+) kB$`).FindSubmatch(text)
	if kib == nil {
		t.Fatalf("no AnonHugePages in smaps_rollup:\n%s", text)
	}
	n, err := strconv.Atoi(string(kib[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// needHugePages skips the test if the kernel makes no huge pages by itself.
func needHugePages(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(text), "[never]") || transparentBytes() == 0 {
		t.Skipf("the kernel makes no huge pages by itself: %q, %v", text, err)
	}
}

func TestMemoryThatWasUsedBeforeIsAdvisedToHugePages(t *testing.T) {
	needHugePages(t)
	page := transparentBytes()
	mem := make([]byte, 16*page)
	inside := mem[5:] // no address in it is aligned
	skip := -uintptr(unsafe.Pointer(&inside[0])) & (page - 1)
	whole := inside[skip : skip+(uintptr(len(inside))-skip)&^(page-1)]
	if err := unix.Madvise(whole, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	for i := range mem {
		mem[i] = byte(i >> 12)
	}
	before := hugeBytes(t)
	Advise(inside)
	if after := hugeBytes(t); after < before+int(page) {
		if err := unix.Madvise(whole, unix.MADV_COLLAPSE); err != nil {
			t.Skipf("the kernel has no huge page to give: %v", err)
		}
		t.Errorf("%d bytes in huge pages after the advice about %d bytes, and %d before", after, len(inside), before)
	}
	for i, b := range mem {
		if b != byte(i>>12) {
			t.Fatalf("byte %d is %d after the advice, and was %d", i, b, byte(i>>12))
		}
	}
}

func TestMemoryOfAnyLengthMayBeAdvised(t *testing.T) {
	page := int(transparentBytes())
	mem := make([]byte, 3*page+3)
	for _, n := range []int{0, 1, page, 2*page - 1, 2 * page, 2*page + 1, 3*page + 3} {
		Advise(mem[:n])
		Advise(mem[len(mem)-n:])
	}
}
