package ctl

// Memory is the memory map of a NIC (QNIX-56) and the parameters from which it was made
// (QNIX-61).
type Memory struct {
	NIC        uint64     `json:"nic,string"`
	Parameters Parameters `json:"parameters"`
	VNIs       VNIs       `json:"vnis"`
	Segments   []Segment  `json:"segments"`
}

// Parameters holds the parameters of QNIX.
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

// VNIs counts the virtual network interfaces, and tells what an idle one costs.
type VNIs struct {
	Prepared int `json:"prepared"`   // made before any process asks
	Idle     int `json:"idle"`       // prepared ones that wait
	Used     int `json:"used"`       // by processes
	OnTheFly int `json:"on_the_fly"` // used ones that were made on request

	// IdleBytes are the bytes of one VNI of the usual geometry whose process is attached and does
	// nothing; IdleBytesLimit is their limit. A VNI that waits for a process has no memory, only
	// file descriptors.
	IdleBytes       int64 `json:"idle_bytes"`
	IdleSharedBytes int64 `json:"idle_shared_bytes"` // the part shared with the process
	IdleBytesLimit  int64 `json:"idle_bytes_limit"`
	MappedBytes     int64 `json:"mapped_bytes"` // address space of one VNI
}

// Segment is one of the six segments of the memory map.
type Segment struct {
	Name  string        `json:"name"`
	Bytes int64         `json:"bytes"` // memory that it takes; for mapped memory, address space
	InUse int64         `json:"in_use_bytes"`
	Parts []SegmentPart `json:"parts"`
}

// SegmentPart is a table or a pool of a segment.
type SegmentPart struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"` // possible ones, or those made; 0: no entries, or no own bound
	Used    int    `json:"used"`
	Bytes   int64  `json:"bytes"`
	InUse   int64  `json:"in_use_bytes"`
}
