//go:build !linux

package idle

// YieldThread has nothing portable to call: the goroutine has yielded already.
func YieldThread() {}

// PreciseTimers does nothing here: only Linux lets a thread choose.
func PreciseTimers() {}
