// Package ctl defines the messages between a host's processes and tools, and its NIC daemon.
//
// They go over a unix socket of packets (SOCK_SEQPACKET), one JSON object per packet, strictly
// decoded: a field that the other side does not know is an error. Descriptors travel with them
// (SCM_RIGHTS).
//
//	process or tool                                    daemon
//	  {"version":1,"op":"attach","attach":{…}}  ──────►
//	                                            ◄────── {"attached":{…}}     + rw, ro, kick, wake
//	  {"version":1,"op":"alloc","alloc":{…}}    ──────►
//	                                            ◄────── {"region":{…}}       + memory
//	  {"version":1,"op":"register","register":{…}} + memory ►
//	                                            ◄────── {"region":{…}}
//	  {"version":1,"op":"share","segment":{…}}  ──────►
//	                                            ◄────── {"segment":{…}}      + memory
//	  {"version":1,"op":"segment","segment_tool":{"do":"read",…}} ─►
//	                                            ◄────── {"segment_tool":{"info":{…},"data":"…"}}
//	  {"version":1,"op":"leave"}                ──────►
//	                                            ◄────── {}
//	  {"version":1,"op":"stat"}                 ──────►
//	                                            ◄────── {"info":{…}}         + counters, read-only
//	  {"version":1,"op":"nodes","from":0}       ──────►
//	                                            ◄────── {"nodes":[…],"next":512}
//	  {"version":1,"op":"job","job":{"what":"reserve","reserve":{…}}} ─►
//	                                            ◄────── {"job":{"ready":true,"pid":7}} or
//	                                                    {"job":{"refusals":[…]}}
//	  …                                         ◄────── {"error":{"code":"name-taken","text":"…"}}
//
// A tool that asks about another NIC names it in "nic". The daemon then sends the request,
// without that field, as a message to the NIC's control process (slot 0), and returns its answer.
// The answer has the same form but no descriptors: "stat" returns the counters by name.
//
// Each request gets one reply, in order. The connection that attached is the process: when it
// ends, the process is gone, also without a leave. After the answer to a leave, the daemon ends
// the connection. If the daemon ends it earlier, the NIC is gone.
//
//	rw    memory that the process and the NIC write (internal/vni)
//	ro    memory that only the NIC writes; the descriptor cannot be mapped for writing
//	kick  eventfd: the process adds one if the NIC does not listen to its queue; the NIC never
//	      reads it
//	wake  socket: a packet of one byte comes when something happened to a process that said
//	      that it sleeps
package ctl

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/registry"
)

// Version is the version of these messages. Both sides must have the same.
const Version = 1

// MaxMessage is the longest message, in bytes. Lists that are longer come in several replies.
const MaxMessage = 64 << 10

// MaxRequest is the longest request, in bytes. It has room for a reservation with two paths of
// PATH_MAX, and for a machine of 256 nodes. Each connection of a daemon has memory for one
// request.
const MaxRequest = 16384

// maxProcessRequest is the longest request of a connection that has attached. Only tools send
// longer ones. So an idle process costs its daemon less.
const maxProcessRequest = 4096

// maxDescriptors is how many descriptors travel with one reply at most. A "register" request of a
// process carries one descriptor, all other requests none.
const maxDescriptors = 8

// ListBytes is how many bytes the entries of a list take at most in one reply: half of
// MaxMessage, since the rest of the reply needs room too. Entries are counted as encoded: a
// process with its counts may take 400 bytes or 2,000.
const ListBytes = MaxMessage / 2

// Errors of a client. Errors that the daemon reports are *Error; they unwrap to one of these if
// one fits.
var (
	ErrNoDaemon   = errors.New("no NIC daemon")
	ErrNICGone    = errors.New("the NIC daemon is gone")
	ErrClosed     = errors.New("closed")
	ErrNameTaken  = errors.New("name is taken")
	ErrSuperseded = errors.New("a newer process of the rank has the name")
	ErrNoSlot     = errors.New("the NIC has no room for another process")
	ErrVersion    = errors.New("the daemon speaks another version")
	ErrRefused    = errors.New("not permitted")
	ErrBadRequest = errors.New("bad request")
	ErrNoRegion   = errors.New("no such region")
	ErrRegionBusy = errors.New("region is in use")
	ErrNoMemory   = errors.New("no memory")
	ErrNoNIC      = errors.New("no such NIC")
	ErrNoProgram  = errors.New("no such program")
	ErrNoJob      = errors.New("no such job")
	ErrNoMachine  = errors.New("no such machine")
	ErrInUse      = errors.New("in use")
	ErrTaken      = errors.New("number is taken")
	ErrNoAnswer   = errors.New("the NIC does not answer")
	ErrNoLink     = errors.New("no such link")
	ErrNoSegment  = errors.New("no such segment")
)

// codes holds the values of Error.Code, and the errors to which they unwrap.
var codes = map[string]error{
	"name-taken": ErrNameTaken, "no-slot": ErrNoSlot, "version": ErrVersion, "refused": ErrRefused,
	"bad-request": ErrBadRequest, "no-region": ErrNoRegion, "region-busy": ErrRegionBusy, "no-memory": ErrNoMemory,
	"nic-gone": ErrNICGone,
	"no-nic":   ErrNoNIC, "no-answer": ErrNoAnswer, "no-program": ErrNoProgram, "number-taken": ErrTaken,
	"no-job": ErrNoJob, "no-machine": ErrNoMachine, "in-use": ErrInUse,
	"no-link": ErrNoLink, "no-segment": ErrNoSegment, "superseded": ErrSuperseded,
}

// Error is the answer of a daemon that does not serve a request.
type Error struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

func (e *Error) Error() string { return e.Text }

// Unwrap makes errors.Is work across the socket.
func (e *Error) Unwrap() error { return codes[e.Code] }

// errorFor makes an Error of err, for the reply.
func errorFor(err error) *Error {
	text := err.Error()
	if len(text) > 4096 {
		text = text[:4096]
	}
	for code, sentinel := range codes {
		if errors.Is(err, sentinel) {
			return &Error{Code: code, Text: text}
		}
	}
	return &Error{Code: "failed", Text: text}
}

// Ops of a Request.
const (
	OpAttach = "attach" // become a process of this NIC
	OpLeave  = "leave"  // stop being one; the answer comes when the name is free
	// Make memory that others can put to and get from, and that needs no copy here.
	OpAlloc    = "alloc"
	OpRegister = "register" // the same for memory of the process, whose descriptor comes along
	OpPart     = "part"     // a part of it, for processes that may reach only that part
	OpFree     = "free"     // give back a region, or a part
	// Make or share a segment: memory that programs in the NIC reach by a number.
	OpShare     = "share"
	OpUnshare   = "unshare"   // release a segment
	OpStat      = "stat"      // the counters
	OpNodes     = "nodes"     // the NICs that this one knows
	OpNames     = "names"     // the processes of the fabric
	OpProcesses = "processes" // the processes of this NIC
	OpGroups    = "groups"    // the groups of the fabric, member by member
	OpMemory    = "memory"    // the memory map of the NIC (QNIX-56)
	// Check that frames of both sizes reach the NICs that this one knows, and return.
	OpCheck    = "check"
	OpThrown   = "thrown"   // the processes that this NIC has thrown out lately
	OpProgram  = "program"  // programs in the NIC: load, list, …
	OpSegments = "segments" // the segments of this NIC
	OpSegment  = "segment"  // make, read, write or delete a segment, for a tool
	OpLinks    = "links"    // the links of the daemon, each with its own NIC
	OpJob      = "job"      // jobs and machines: reserve, list, kill, …
	OpShutdown = "shutdown" // end the daemon like a signal
	OpReload   = "reload"   // read the configuration again, and apply the changes
	OpNode     = "node"     // add a node to the list, or remove one
)

// Request is the message of a client.
type Request struct {
	Version int            `json:"version"`
	Op      string         `json:"op"`
	Attach  *Attach        `json:"attach,omitempty"`
	Alloc   *Alloc         `json:"alloc,omitempty"`
	Given   *Register      `json:"register,omitempty"`
	Part    *Part          `json:"part,omitempty"`
	Free    *Free          `json:"free,omitempty"`
	Segment *SharedSegment `json:"segment,omitempty"` // for share and unshare
	Tool    *SegmentTool   `json:"segment_tool,omitempty"`
	Program *Program       `json:"program,omitempty"`
	Job     *Job           `json:"job,omitempty"`
	Reload  *Reload        `json:"reload,omitempty"`
	Node    *NodeChange    `json:"node,omitempty"`
	// From is, for a list, the index of the first entry wanted.
	From int `json:"from,omitempty"`
	// NIC is the NIC of the request; 0: the daemon's own.
	NIC uint64 `json:"nic,omitempty,string"`
	// Link is the daemon's link of the request; empty: the first.
	Link string `json:"link,omitempty"`
}

// Remote reports whether one NIC may ask another for r. Such requests only read state, or are
// about programs and jobs, which the other NIC authorises. The answer has no descriptors.
func (r *Request) Remote() bool {
	switch r.Op {
	case OpStat, OpNodes, OpNames, OpProcesses, OpGroups, OpMemory, OpProgram:
		return true
	case OpJob:
		return r.Job != nil && r.Job.remote()
	}
	return false
}

// forgoes reports whether a client may lose the reply to r. Such a request only reads state, or
// is about programs: their client asks again, or undoes the change.
func (r *Request) forgoes() bool {
	return r.Remote() || r.Op == OpCheck || r.Op == OpThrown || r.Op == OpSegments || r.Op == OpLinks
}

// check reports what is wrong with the form of r.
func (r *Request) check() error {
	switch {
	case r.Version != Version:
		return fmt.Errorf("%w: got version %d, this daemon has %d; use the weft of the same build", ErrVersion,
			r.Version, Version)
	case r.Op == OpAttach && r.Attach == nil, r.Op == OpAlloc && r.Alloc == nil, r.Op == OpRegister &&
		r.Given == nil, r.Op == OpPart && r.Part == nil, r.Op == OpFree && r.Free == nil,
		(r.Op == OpShare || r.Op == OpUnshare) && r.Segment == nil, r.Op == OpSegment && r.Tool == nil,
		r.Op == OpProgram && r.Program == nil, r.Op == OpJob && r.Job == nil,
		r.Op == OpReload && r.Reload == nil, r.Op == OpNode && r.Node == nil:
		return fmt.Errorf("%w: %q comes without its arguments", ErrBadRequest, r.Op)
	case r.From < 0:
		return fmt.Errorf("%w: list from entry %d", ErrBadRequest, r.From)
	case r.Link != "" && !IsLinkName(r.Link):
		return fmt.Errorf("%w: link %.80q; expected the name of one", ErrBadRequest, r.Link)
	case r.NIC != 0 && !r.Remote():
		return fmt.Errorf("%w: %q of another NIC; "+
			"expected stat, nodes, names, groups, processes, memory, program, or job",
			ErrBadRequest, r.Op)
	}
	switch r.Op {
	case OpSegment:
		return r.Tool.check()
	case OpProgram:
		return r.Program.check()
	case OpJob:
		return r.Job.check()
	case OpNode:
		return r.Node.check()
	case OpAttach, OpLeave, OpAlloc, OpRegister, OpPart, OpFree, OpShare, OpUnshare, OpStat, OpNodes, OpNames,
		OpProcesses, OpGroups, OpMemory, OpCheck, OpThrown, OpSegments, OpLinks, OpShutdown, OpReload:
		return nil
	}
	return fmt.Errorf("%w: unknown operation %q", ErrBadRequest, r.Op)
}

// Attach asks for a VNI.
type Attach struct {
	Name     string    `json:"name"`               // app/index
	Geometry *Geometry `json:"geometry,omitempty"` // nil: the daemon's choice

	// For a process of a rank; see vni.Life.
	Incarnation uint64 `json:"incarnation,omitempty"`
	JobKey      []byte `json:"job_key,omitempty"` // 32 bytes, or none
}

// Geometry is the size of a VNI (QNIX-61): N commands, M contexts, K descriptors per context, Q
// pages of buffer pool. In a request, 0 means the daemon's choice.
type Geometry struct {
	Commands    int `json:"commands"`
	Contexts    int `json:"contexts"`
	Descriptors int `json:"descriptors"`
	PoolPages   int `json:"pool_pages"`
}

// Attached describes the VNI that the process got.
type Attached struct {
	NIC        uint64   `json:"nic,string"`
	Slot       uint16   `json:"slot"`
	Generation uint32   `json:"generation"`
	Geometry   Geometry `json:"geometry"`
}

// Alloc asks for a region of Bytes bytes; the daemon rounds up to pages.
type Alloc struct {
	Bytes int64 `json:"bytes"`
	Huge  bool  `json:"huge,omitempty"` // in huge pages
}

// Register asks to make a region of Bytes bytes of given memory, from Offset on.
type Register struct {
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
	Sealed bool  `json:"sealed,omitempty"` // all processes may only read it

	// FD is the descriptor of the memory, which came with the request. It is valid until
	// Client.LetGo.
	FD int `json:"-"`
}

// Part asks for a handle of a part of a region.
type Part struct {
	Region uint32 `json:"region"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Sealed bool   `json:"sealed,omitempty"` // others may only read it
}

// Region describes memory that the NIC knows.
type Region struct {
	ID    uint32 `json:"id"`
	Key   uint64 `json:"key,string"`
	Bytes int64  `json:"bytes"`
}

// Free gives a region back.
type Free struct {
	Region uint32 `json:"region"`
}

// SharedSegment names memory that programs in the NIC share with processes.
type SharedSegment struct {
	ID    uint32 `json:"id"`
	Bytes int64  `json:"bytes,omitempty"` // of its data; in a reply, of the whole memory to map
}

// Info describes a daemon.
type Info struct {
	NIC         uint64 `json:"nic,string"`
	Incarnation uint64 `json:"incarnation,string"`
	Address     string `json:"address"`
	Name        string `json:"name"`    // not set: see Network
	Network     string `json:"network"` // name of the link, by which clients choose it
	// Link is the kind of the link: udp, xdp or xdp-generic, or a text that it has lost its
	// interface.
	Link    string `json:"link"`
	Version string `json:"version"` // of Weft
	Commit  string `json:"commit"`  // the commit that the daemon was built from
	Guard   string `json:"guard"`   // of its links: GuardSealed or GuardPlain
	Key     string `json:"key"`     // its static key
	// Fabric is the fingerprint of the fabric key that the NIC calls with; empty on a plain link.
	Fabric string `json:"fabric"`
	PID    int    `json:"pid"` // in its own PID namespace
	// StateDir is the absolute path of the directory with its keys.
	StateDir   string `json:"state_dir,omitempty"`
	Started    int64  `json:"started"` // Unix time in nanoseconds
	Goroutines int    `json:"goroutines"`
	Clock      int64  `json:"clock"` // the NIC's clock, in nanoseconds: instants among its counters are on it
	// Reasons explain the choice of the link at the start, and the features that it lacks.
	Reasons []string `json:"reasons,omitempty"`
}

// Values of Guard: how the frames of a session are guarded.
const (
	GuardSealed = "sealed" // encrypted and authenticated
	GuardProved = "proved" // both NICs have proved their ids; the frames do not leave the host
	GuardPlain  = "plain"  // not at all
)

// Node is a NIC as another one knows it.
type Node struct {
	// ID is written as eight octets; none: the NIC has never told it.
	ID      registry.NICID `json:"id,omitempty"`
	Name    string         `json:"name,omitempty"` // the name for programs and tools
	Address string         `json:"address"`
	// Elsewhere is another address, from which frames of the NIC come and are dropped.
	Elsewhere   string `json:"elsewhere,omitempty"`
	State       string `json:"state"`              // up or down
	Incarnation uint64 `json:"incarnation,string"` // of its present life; 0: never up
	Processes   int    `json:"processes"`          // reachable ones of the NIC
	RTT         int64  `json:"rtt_ns"`             // 0: not measured
	// Frame is the length in bytes of the longest frame known to reach the NIC; 0: down.
	Frame int `json:"frame"`
	// WholeFrame is the length in bytes of the longest frame that both NICs take.
	WholeFrame int `json:"whole_frame"`
	// Narrow equals Frame if the path was found to carry no longer frame; 0: not, or not yet.
	Narrow int `json:"narrow,omitempty"`
	// Guard is how a session with the NIC is guarded: GuardSealed, GuardProved or GuardPlain;
	// empty: down.
	Guard string `json:"guard,omitempty"`
	Suite string `json:"suite,omitempty"` // the AEAD of sealed frames
	// Key is the static key that the NIC has proved.
	Key string `json:"key,omitempty"`
	// Binding tells what ties the id to the key: key (the id is made from it), configuration or
	// certificate.
	Binding string `json:"binding,omitempty"`
	// Position is x and y on the torus; none: no position, or not told.
	Position []int `json:"position,omitempty"`
}

// Check is the result of the connectivity check of a node.
type Check struct {
	ID      registry.NICID `json:"id,omitempty"`
	Address string         `json:"address"`
	OK      bool           `json:"ok"`
	Text    string         `json:"text,omitempty"` // why it failed
	// Cause is one of the causes below, for programs. It is empty if the check succeeded, or if
	// frames do not return and this NIC refuses none.
	Cause string `json:"cause,omitempty"`
}

// Values of Check.Cause.
const (
	CauseFabricKey   = "fabric-key"  // the frames or the gossip of the other NIC have another fabric key
	CausePlain       = "plain"       // one link is sealed and the other one plain
	CauseOwnID       = "own-id"      // the other NIC has the id of this one
	CauseKnownID     = "known-id"    // a third NIC with the id of the other one is up
	CauseCertificate = "certificate" // its certificate is not valid at the time of this host's clock
	CauseSeed        = "seed"        // a seed has not let this NIC join the gossip
	CauseRefused     = "refused"     // another reason for which this NIC refuses the other one
)

// Name is a process of the fabric, as in the NIC's name table.
type Name struct {
	Name       string         `json:"name"`
	NIC        registry.NICID `json:"nic"`
	Slot       uint16         `json:"slot"`
	Generation uint32         `json:"generation"`

	Unreachable bool `json:"unreachable,omitempty"` // its NIC does not answer
}

// Member is a member of a group of the fabric (QNIX-54).
type Member struct {
	Group string `json:"group"`
	Epoch uint32 `json:"epoch"` // how often the group has shrunk
	// Size counts the members that the group has, or waits for; 0: not known.
	Size int `json:"size"`
	// State is gathering, complete or broken; or application, for the living processes of one.
	State      string         `json:"state"`
	Name       string         `json:"name"`
	NIC        registry.NICID `json:"nic"`
	Slot       uint16         `json:"slot"`
	Generation uint32         `json:"generation"`
}

// Process is a process of the daemon's own NIC.
type Process struct {
	Name       string `json:"name"`
	Slot       uint16 `json:"slot"`
	Generation uint32 `json:"generation"`
	PID        int    `json:"pid"`
	Posted     int    `json:"posted"`     // receives that wait for a message
	Unexpected int    `json:"unexpected"` // messages that wait for a receive
	Oldest     int64  `json:"oldest_ns"`  // how long the first of these has waited
	Staged     int    `json:"staged"`     // bytes of staging that these take
	Credit     int    `json:"credit"`     // bytes that other NICs may send it unasked
	Sending    int    `json:"sending"`    // sends, PUTs and GETs in flight
	Rooms      int    `json:"rooms"`      // their segments that are queued or not acknowledged
	Regions    int    `json:"regions"`

	RegionBytes int64 `json:"region_bytes"`

	// The following counts only grow.
	Commands uint64 `json:"commands"`
	Turns    uint64 `json:"turns"` // packets and other steps of its sends
	// Crowded counts the times that its turns stopped since it had as many rooms as were left.
	Crowded uint64 `json:"crowded"`
	// Held counts sends without credit and without room for one more permission request.
	Held           uint64 `json:"held"`
	Sent           uint64 `json:"sent"` // messages
	SentBytes      uint64 `json:"sent_bytes"`
	Received       uint64 `json:"received"`
	ReceivedBytes  uint64 `json:"received_bytes"`
	Truncated      uint64 `json:"truncated"`
	Memory         uint64 `json:"memory"`          // PUTs and GETs
	Collectives    uint64 `json:"collectives"`     // operations of groups, joins included
	CameUnexpected uint64 `json:"came_unexpected"` // messages that came before a receive for them
	LongestWait    int64  `json:"longest_wait_ns"` // of these
	Rings          uint64 `json:"rings"`
	EmptyRings     uint64 `json:"empty_rings"` // rings without a command

	Refused map[string]uint64 `json:"refused,omitempty"` // operations that failed, by status
}

// Refusals returns how many operations of p failed.
func (p *Process) Refusals() (n uint64) {
	for _, k := range p.Refused {
		n += k
	}
	return n
}

// Thrown is a process that the daemon has thrown out. Successive processes of one program are one
// Thrown.
type Thrown struct {
	Name       string `json:"name"`
	Slot       uint16 `json:"slot"`
	Generation uint32 `json:"generation"`
	PID        int    `json:"pid"`
	UID        int    `json:"uid"`
	Why        string `json:"why"`
	Last       int64  `json:"last"` // Unix time in nanoseconds
	Times      int    `json:"times"`
}

// Reply is the answer of a daemon. At most one of the fields is set, besides Next and Counters.
type Reply struct {
	Error     *Error         `json:"error,omitempty"`
	Attached  *Attached      `json:"attached,omitempty"`
	Region    *Region        `json:"region,omitempty"`
	Segment   *SharedSegment `json:"segment,omitempty"`
	Info      *Info          `json:"info,omitempty"`
	Nodes     []Node         `json:"nodes,omitempty"`
	Names     []Name         `json:"names,omitempty"`
	Processes []Process      `json:"processes,omitempty"`
	Groups    []Member       `json:"groups,omitempty"`
	Memory    *Memory        `json:"memory,omitempty"`
	Checks    []Check        `json:"checks,omitempty"`
	Thrown    []Thrown       `json:"thrown,omitempty"`
	Segments  []SegmentInfo  `json:"segments,omitempty"`
	Tool      *SegmentAnswer `json:"segment_tool,omitempty"`
	Program   *ProgramReply  `json:"program,omitempty"`
	Links     []Link         `json:"links,omitempty"`
	Job       *JobReply      `json:"job,omitempty"`
	Reloaded  *Reloaded      `json:"reloaded,omitempty"`

	Counters map[string]uint64 `json:"counters,omitempty"` // with Info, from another NIC
	// Next is the index of a list's next entry; 0: no more.
	Next int `json:"next,omitempty"`
}
