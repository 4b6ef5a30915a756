package hugepage

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leastPages is the smallest number of huge pages for which Advise does anything. Smaller memory
// may contain no whole huge page, because the heap does not align it.
const leastPages = 2

// Advise asks the system to hold mem in huge pages, as far as mem covers whole ones. It takes no
// page that an administrator has reserved. In most distributions the kernel gives huge pages only
// to memory that asks for them.
//
// If the system refuses, the pages stay ordinary. Then the memory works, but is slower, so Advise
// returns no error.
func Advise(mem []byte) {
	page := transparentBytes()
	if page == 0 || uintptr(len(mem)) < leastPages*page {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	skip := -at & (page - 1)
	whole := mem[skip : skip+(uintptr(len(mem))-skip)&^(page-1)]
	_ = unix.Madvise(whole, unix.MADV_HUGEPAGE)
	// The first call is about future pages. Memory that the heap reuses already has ordinary
	// pages.
	_ = unix.Madvise(whole, unix.MADV_COLLAPSE)
}

// transparentBytes returns the size of the huge pages that the kernel makes by itself, or 0 if it
// makes none.
var transparentBytes = sync.OnceValue(func() uintptr {
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 32)
	if err != nil || n&(n-1) != 0 {
		return 0
	}
	return uintptr(n)
})
