//go:build linux

package idle

// segmentLimit returns the limit of the segment by which the kernel tells programs where they
// run; all ones if there is none.
func segmentLimit() uint32

// Processor returns the number of the processor on which the calling thread runs just now; -1 if
// unknown. It takes some nanoseconds. To ask the kernel by a system call would take longer than
// a look at a link.
func Processor() int {
	limit := segmentLimit()
	if limit == ^uint32(0) {
		return -1
	}
	return int(limit & 0xfff)
}
