//go:build !linux

package hugepage

// Advise does nothing, because other systems choose the page size by themselves.
func Advise([]byte) {}
