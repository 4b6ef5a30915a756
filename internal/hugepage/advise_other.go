//go:build !linux

package hugepage

// Advise does nothing: other systems choose the size of pages by themselves.
func Advise([]byte) {}
