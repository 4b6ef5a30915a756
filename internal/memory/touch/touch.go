// Package touch checks whether memory is accessible. A program may have unmapped its own mapping,
// or the mapping may be read-only. A load or store would then end the program; here it gives a
// result.
package touch

import (
	"os"
	"runtime/debug"
	"unsafe"
)

var page = uintptr(os.Getpagesize())

// word is the unit that is loaded, or stored unchanged, in each page. No word crosses the end of
// a page.
const word = unsafe.Sizeof(uint32(0))

// All accesses each page of b with a load, or, if it will be written, with a store that changes
// nothing. If a page is not accessible, ok is false, and addr lies in the first such page.
func All(b []byte, written bool) (addr uintptr, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault, is := recover().(interface{ Addr() uintptr }); is {
			addr, ok = fault.Addr(), false
		}
	}()
	first := unsafe.Pointer(unsafe.SliceData(b))
	start, end := uintptr(first), uintptr(first)+uintptr(len(b))
	for at := start; at < end; at = at&^(page-1) + page {
		// This applies only to the page of the first byte.
		back := at & (word - 1)
		w := (*uint32)(unsafe.Add(first, int(at-start)-int(back)))
		if written {
			store(w)
		} else {
			load(w)
		}
	}
	return 0, true
}

// Reach is All for callers that need no address.
func Reach(b []byte, written bool) bool {
	_, ok := All(b, written)
	return ok
}
