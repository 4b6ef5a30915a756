package ctl

// Memory is the memory map of a NIC (QNIX-56) and the numbers that it was made by (QNIX-61).
type Memory struct {
	NIC        uint64     `json:"nic,string"`
	Parameters Parameters `json:"parameters"`
	VNIs       VNIs       `json:"vnis"`
	Segments   []Segment  `json:"segments"`
}

// Parameters are QNIX's.
type Parameters struct {
	N         int `json:"n"` // commands of a VNI
	M         int `json:"m"` // contexts
	K         int `json:"k"` // descriptors
	Q         int `json:"q"` // pool pages
	P         int `json:"p"` // processes
	D         int `json:"d"` // driver commands
	R         int `json:"r"` // other NICs
	T         int `json:"t"` // names of each NIC
	G         int `json:"g"` // memberships in groups of each NIC
	HeadBatch int `json:"head_batch"`
}

// VNIs says how many virtual network interfaces there are, and what one costs that no process uses.
type VNIs struct {
	Prepared int `json:"prepared"`   // made before a process asks
	Idle     int `json:"idle"`       // of those, waiting
	Used     int `json:"used"`       // by processes
	OnTheFly int `json:"on_the_fly"` // of those, made when they were asked for

	// Bytes of one of the usual geometry whose process is attached and does nothing, and the most that it may be. One that
	// waits for a process has no memory, only file descriptors.
	IdleBytes       int64 `json:"idle_bytes"`
	IdleSharedBytes int64 `json:"idle_shared_bytes"` // of those, shared with the process
	IdleBytesLimit  int64 `json:"idle_bytes_limit"`
	MappedBytes     int64 `json:"mapped_bytes"` // of one: address space
}

// Segment is one of the six.
type Segment struct {
	Name  string        `json:"name"`
	Bytes int64         `json:"bytes"` // that it takes; of memory that is mapped, address space
	InUse int64         `json:"in_use_bytes"`
	Parts []SegmentPart `json:"parts"`
}

// SegmentPart is a table or a pool of a segment.
type SegmentPart struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"` // there can be, or have been made; 0: it has none, or no bound of its own
	Used    int    `json:"used"`
	Bytes   int64  `json:"bytes"`
	InUse   int64  `json:"in_use_bytes"`
}
