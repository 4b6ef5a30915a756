//go:build !linux || !amd64

package idle

// Processor would be the processor that the calling thread is on. Here it is not known: -1.
func Processor() int { return -1 }
