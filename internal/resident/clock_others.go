//go:build !linux

package resident

// kernelClock returns 0: no program can reside in a driver here.
func kernelClock() int64 { return 0 }
