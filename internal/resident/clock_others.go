//go:build !linux

package resident

// kernelClock is of no meaning where no program can reside in a driver.
func kernelClock() int64 { return 0 }
