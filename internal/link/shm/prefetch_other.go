//go:build !amd64

package shm

// own and fetch are hints, which do nothing on this processor.
func own(*uint64)   {}
func fetch(*uint64) {}
