// Package limits names every capacity, budget and default time-out of Weft, each with its reason.
//
// A number that bounds something is here and nowhere else; a change of one is a change of this file.
package limits

import "time"

// Segments and windows (internal/rel).
const (
	// Window is how many segments of one space may be under way to a peer (USNIC-41).
	Window = 4096

	// FirstRing is the size at which rings of segments start. A peer that is talked to now and then needs no more;
	// a busy one grows its rings by doubling, outside the steady state.
	FirstRing = 64

	// TinyMessage is the longest message, in bytes, that goes by the command queue (USNIC-15: tiny_mtu).
	TinyMessage = 768

	// ActiveFragments is how many fragments one endpoint may have under way: slot = id mod this.
	ActiveFragments = 2048

	// ResendsPerPoll is how many retransmissions one poll makes at most, so that they never starve new sends and
	// acknowledgements for long.
	ResendsPerPoll = 16

	// Peers is how many peer NICs one NIC talks to by default.
	Peers = 4096
)

// Times (internal/rel, decision 7).
const (
	AckDelay          = 50 * time.Microsecond  // USNIC-48
	FirstRetransmit   = 100 * time.Millisecond // USNIC-45: until an RTT has been measured
	LeastRetransmit   = time.Millisecond       // below this, a descheduled peer looks like a loss
	LongestRetransmit = 500 * time.Millisecond // a quarter of UnreachableAfter, so that several tries fit into it
	HelloEvery        = 250 * time.Millisecond
	ProbeEvery        = 250 * time.Millisecond // USNIC-61's ping interval
	UnreachableAfter  = 2 * time.Second
)

// Shared memory (internal/vni). M = Contexts, N = Commands, K = Descriptors, Q = PoolPages (QNIX-61).
const (
	Contexts     = 64       // pending sends, and pending receives, of one process
	Commands     = 256      // N ≥ 2M, so that every context can have its command and a Cancel posted
	Descriptors  = 16       // pieces of memory that one operation names
	PoolPages    = 256      // 1 MiB staged at a time by an attached process
	PageBytes    = 4096     // the page of every host that Weft runs on
	ShortMessage = 768      // longest message written into its context region (QNIX-18); equals TinyMessage
	NameBytes    = 24       // longest application name
	Processes    = 128      // P: VNIs that a NIC prepares for (QNIX-3)
	MaxProcesses = 4096     // P at most
	Regions      = 1024     // regions that one process may have open
	MaxRegion    = 64 << 30 // bytes; offsets are signed 64-bit everywhere, this is for sanity
)

// Messages (internal/nic, decision 8).
const (
	// StagingBytes is the managed memory in which one process's unexpected messages wait. Credits handed out for a
	// process never add up to more.
	StagingBytes = 4 << 20

	// CreditBytes is what one sending NIC is handed of a process's staging at a time: a GRO batch carries 700 small
	// messages, and one batch must fit.
	CreditBytes = 256 << 10

	// EagerMessage is the longest message that may go without permission, on credit. Longer ones gain nothing: the
	// round trip of the request is small beside their transfer.
	EagerMessage = 16 << 10

	// StagedOverhead is what a staged message costs beside its bytes, so that empty messages use up credit too.
	StagedOverhead = 64

	// RequestsPerSource bounds the permission requests of one NIC that may stand open at one process; the rest wait in
	// order at the sender.
	RequestsPerSource = 64
)
