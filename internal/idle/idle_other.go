//go:build !linux

package idle

// yieldThread has nothing portable to call: the goroutine has yielded already.
func yieldThread() {}

// PreciseTimers does nothing here: only Linux lets a thread choose.
func PreciseTimers() {}
