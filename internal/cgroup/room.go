package cgroup

// Room is the amount of memory that a cgroup leaves to its processes.
type Room struct {
	LimitBytes int64 // number of bytes that its processes may use together
	// LeftBytes is the number of bytes that the processes may use in addition. File pages that
	// the kernel can drop do not count as used.
	LeftBytes int64
	File      string // path of the file that holds the limit
}
