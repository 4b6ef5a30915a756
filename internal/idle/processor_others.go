//go:build !linux || !amd64

package idle

// Processor returns -1: here the processor of the calling thread is not known.
func Processor() int { return -1 }
