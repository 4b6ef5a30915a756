package cgroup

// Room is how much memory a cgroup leaves to its processes.
type Room struct {
	LimitBytes int64  // that its processes may use together
	LeftBytes  int64  // that they may use in addition; pages of files, which the kernel can drop, are not in use
	File       string // that has the limit
}
