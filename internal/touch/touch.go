// Package touch finds out whether memory is there. A mapping that a program made itself may be
// gone, or may not be written, and a load or store there would end the program; here it ends in an
// answer.
package touch

import (
	"os"
	"runtime/debug"
	"unsafe"
)

var page = uintptr(os.Getpagesize())

// word is what is loaded, or stored as it was, in each page. No page ends within one.
const word = unsafe.Sizeof(uint32(0))

// All looks at each page of b, by a load, or by a store that changes nothing if it is to be
// written. ok is false if one of them cannot be, and addr is in the first such.
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
		back := at & (word - 1) // only in the page of the first byte
		w := (*uint32)(unsafe.Add(first, int(at-start)-int(back)))
		if written {
			store(w)
		} else {
			load(w)
		}
	}
	return 0, true
}

// Reach is All for those that need not know where.
func Reach(b []byte, written bool) bool {
	_, ok := All(b, written)
	return ok
}
