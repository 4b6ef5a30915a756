//go:build linux

package idle

// segmentLimit is the limit of the segment by which the kernel tells programs where they run; all ones if there is none.
func segmentLimit() uint32

// Processor is the number of the processor that the calling thread is on just now; -1 if that is not known. It takes some nanoseconds;
// to ask the kernel by a system call takes more than a look at what is waited for.
func Processor() int {
	limit := segmentLimit()
	if limit == ^uint32(0) {
		return -1
	}
	return int(limit & 0xfff)
}
