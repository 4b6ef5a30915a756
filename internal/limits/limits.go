// Package limits names every capacity, budget and default timeout of Weft, each with its reason.
//
// A number that bounds something is in this package and nowhere else. This file bounds the engine
// and the packages below it, clients.go the processes and clients of a daemon, and programs.go
// the programs in NICs.
package limits

import "time"

// Segments and windows (internal/rel).
const (
	// Window is how many segments of one space may be in flight to a peer (USNIC-41).
	Window = 4096

	// FirstRing is the initial capacity of a ring of segments. It is enough for a peer with
	// occasional traffic. The ring of a busy peer doubles as needed, outside the steady state.
	FirstRing = 64

	// TinyMessage is the longest message, in bytes, that travels on the command queue (USNIC-15:
	// tiny_mtu).
	TinyMessage = 768

	// ActiveFragments is how many fragments of one endpoint may be in flight: slot = id mod
	// ActiveFragments.
	ActiveFragments = 2048

	// ResendsPerPoll is the largest number of retransmissions in one poll, so that they do not
	// starve new sends and acknowledgements.
	ResendsPerPoll = 16

	// Peers is how many peer NICs one NIC talks to by default.
	Peers = 4096

	// PaceBurst is how many bytes a paced sender may send at once: one batch of segmentation
	// offload, and less than a switch buffers for a port.
	PaceBurst = 64 << 10

	// CommandMTU is the largest frame of the command queue, in bytes (USNIC-14). It holds some
	// forty 64-byte messages. It is not larger, so that a control record never waits behind much
	// data.
	CommandMTU = 4096

	// ReceiveCapacity is how many bytes of frames may be in flight to a NIC that announces no
	// capacity. It is the default socket buffer of a UDP socket on Linux.
	ReceiveCapacity = 208 << 10

	// FrameCost is what a frame takes of a receive capacity in addition to its bytes: the kernel
	// also charges a socket buffer for the bookkeeping of a packet.
	FrameCost = 768

	// ChannelShare is a divisor: this part of a receive capacity is reserved for each channel, so
	// that neither queue can block the other.
	ChannelShare = 8

	// Rooms is how many segments of one NIC may await acknowledgement, over all peers. One room
	// in RoomReserve is reserved for control segments and retransmissions.
	Rooms       = 32768
	RoomReserve = 32

	// ControlBacklog is how many control segments may wait for one peer's window. Each peer's
	// records ask for a bounded number of answers, and more than twenty answers coalesce into one
	// segment. So only a peer that keeps asking and acknowledges nothing reaches this limit; it
	// is cut off.
	ControlBacklog = 1024

	// PendingSessions bounds the half-open sessions of one NIC. Beyond it, the oldest is
	// discarded.
	PendingSessions = 256

	// HandshakeWindow is the time in which handshakes are counted. A handshake takes some 0.15 ms
	// of a processor.
	HandshakeWindow = 100 * time.Millisecond

	// HandshakesUnproved is how many Hellos a NIC processes in a window before their senders must
	// prove that they receive at their addresses: a hundred NICs that start at once need no
	// proof.
	HandshakesUnproved = 100

	// HandshakesAtMost bounds the handshakes in a window, proved or not: half of a processor.
	HandshakesAtMost = 330

	// HandshakesOfAddress is how many of these may come from one proved address, so that other
	// addresses have their turn.
	HandshakesOfAddress = 40

	// RenewAfter is the age of a handshake at which another handshake gives the session fresh
	// keys.
	RenewAfter = time.Hour

	// RenewAgain is the time after which a message of such a handshake is retransmitted.
	RenewAgain = time.Second

	// ReorderFrames is how many later frames may overtake a frame before it counts as lost.
	ReorderFrames = 3

	// FirstRounds is the number of initial rounds of a session in which heavy loss throws doubt
	// on the driver's batches. Later on, the cause is a full queue.
	FirstRounds = 4

	// SizeDoubt is a number of losses. A long frame that is lost this often makes the endpoint
	// probe that length, which costs three probes. SureFrame is the frame length with which a
	// session begins, in bytes: every IPv6 path carries 1,280 with its headers. If even SureFrame
	// is lost, LeastFrame applies.
	SizeDoubt = 2
	SureFrame = 1232

	// PathTries is how many probes of one length must be lost, while small probes arrive, before
	// that length counts as more than the path carries. If one frame in five is lost each way,
	// this verdict is wrong once in 350 times, and is corrected after PathRaise. PathStep is the
	// precision of the search for the longest frame, in bytes: 1 % of Ethernet's.
	PathTries = 4
	PathStep  = 16

	// PartedSegments is how many segments of one peer may be reassembled from parts concurrently,
	// and PartedSegmentsInAll the same for all peers. Parts arrive in order except after a loss,
	// so few segments are open. Each takes the memory of one frame.
	PartedSegments      = 8
	PartedSegmentsInAll = 256

	// DatagramsJoining is how many datagrams of one peer may be reassembled from pieces
	// concurrently, and DatagramsJoiningInAll the same for all peers. Each takes up to 16 KiB (32
	// KiB of the pool), so 256 KiB and 4 MiB at most.
	DatagramsJoining      = 8
	DatagramsJoiningInAll = 128

	// DatagramsWaiting is how many datagrams to one peer may wait for the next turn, and
	// DatagramsWaitingInAll the same for all peers. A sender of more in one turn is told so; it
	// must expect the loss of datagrams anyway.
	DatagramsWaiting      = 64
	DatagramsWaitingInAll = 512

	// TailProbes is how many tail-loss probes are sent before the retransmit timer applies.
	TailProbes = 2

	// CheckTries is how many times the connectivity check probes each size (USNIC-61).
	CheckTries = 8
)

// Times (internal/rel, decision 7).
const (
	// DatagramPatience is how long the missing pieces of a datagram are waited for. All pieces
	// leave together, so a piece that is later than the round trip of a slow path is lost.
	DatagramPatience = 100 * time.Millisecond

	// PathPatience is the least time to wait for probes of a path's MTU; on slow paths it is four
	// round trips. PathRaise is the time after which a path that carried less is probed again.
	PathPatience = 20 * time.Millisecond
	PathRaise    = 30 * time.Second

	AckDelay        = 50 * time.Microsecond  // USNIC-48
	FirstRetransmit = 100 * time.Millisecond // USNIC-45: until an RTT has been measured
	// LeastLateness is for an answer, beyond the round trip. Below it, a descheduled peer looks
	// like a loss.
	LeastLateness = time.Millisecond
	// LongestRetransmit is a quarter of UnreachableAfter, so that several tries fit into it.
	LongestRetransmit = 500 * time.Millisecond
	HelloEvery        = 250 * time.Millisecond
	ProbeEvery        = 250 * time.Millisecond // USNIC-61's ping interval
	UnreachableAfter  = 2 * time.Second

	// LeastUnreachableAfter is less than the silence that every network has by itself.
	// MostUnreachableAfter is more than any operation waits.
	LeastUnreachableAfter = 10 * time.Millisecond
	MostUnreachableAfter  = time.Hour
)

// Shared memory (internal/vni). M = Contexts, N = Commands, K = Descriptors, Q = PoolPages
// (QNIX-61).
const (
	Contexts = 64 // pending sends, and pending receives, of one process
	// Commands is N: at least 2M, so that every context can have its command and a Cancel posted.
	Commands    = 256
	Descriptors = 16   // pieces of memory that one operation describes at once
	PoolPages   = 256  // 1 MiB: what an attached process may stage at once
	PageBytes   = 4096 // the page of every host that Weft runs on
	// ShortMessage is the longest message that is written into its context region (QNIX-18). It
	// equals TinyMessage.
	ShortMessage = 768
	NameBytes    = 24   // longest application name
	Processes    = 128  // VNIs that a NIC makes before a process asks (QNIX-3)
	MaxProcesses = 4096 // the largest P
	// Refills is how many operations of one process may be refilled concurrently.
	Refills = 16
	// RefillBytes is the most of the pool that one of them takes: half, so that two large ones
	// proceed concurrently.
	RefillBytes = 512 << 10
	// RefillSlots is how many pieces RefillBytes is cut into: one is copied while others are
	// posted and acknowledged.
	RefillSlots = 8
	Regions     = 1024 // regions that one process may have open
	// Temporaries is how many regions an attached process keeps for messages that its pool cannot
	// hold.
	Temporaries = 4
	// RegionBytes bounds the registered memory of one attached process, unless the daemon's
	// configuration sets another bound.
	RegionBytes = 1 << 30
	MaxRegion   = 64 << 30 // bytes; offsets are signed 64-bit everywhere, this is a sanity limit
	// MappedRegion is the size from which regions of an embedded NIC are mapped, so that missing
	// memory is an error. Smaller regions are on Go's heap.
	MappedRegion = 64 << 20
	// SimRegion is the largest region of a simulated process. It is on Go's heap, and a failed
	// allocation there ends the program.
	SimRegion = 1 << 30

	// DefaultProcesses is P unless configured. Each process takes three file descriptors, so the
	// 4,096 that many systems allow a program suffice.
	DefaultProcesses = 1024

	// MaxCommands, MaxContexts and MaxPoolPages bound the geometry that a process may ask for:
	// sixteen times the default, and 64 MiB of pool. Before use, they take 67 MiB of the daemon's
	// address space and 3 MiB of its memory.
	MaxCommands  = 16 * Commands
	MaxContexts  = 16 * Contexts
	MaxPoolPages = 64 * PoolPages

	// IdleVNIBytes bounds the memory that an idle attached process with the default geometry
	// costs a daemon: 1,024 such processes take 320 MiB.
	IdleVNIBytes = 320 << 10

	// IdlePeerBytes bounds the memory that one idle NIC with an open session costs another: 1,000
	// such NICs take 32 MB.
	IdlePeerBytes = 32 << 10

	// DriverCommands is D: driver commands that are not yet answered (QNIX-61). A New_Process may
	// wait for news from another NIC. At most this many may do so before the commands behind them
	// have to wait too.
	DriverCommands = 256
)

// Messages (internal/nic, decision 8).
const (
	// KeptBytes bounds the copies that one NIC keeps of messages of several frames until they are
	// acknowledged. Beyond it, the callers wait for the acknowledgement. So a peer that
	// acknowledges all of a message except its end costs no more memory. Below it, thousands of
	// messages may be in flight.
	KeptBytes = 64 << 20

	// StagingBytes is the managed memory for one process's unexpected messages. The credits
	// granted for a process never add up to more.
	StagingBytes = 4 << 20

	// CreditBytes is the part of a process's staging that one sending NIC gets as credit at once.
	// A GRO batch carries 700 small messages, and one batch must fit.
	CreditBytes = 256 << 10

	// UnaskedMessage is the longest message of which any number may be sent on credit, without
	// permission, to any NIC: 16 KiB, and the header that its user has put before it.
	UnaskedMessage = 17 << 10

	// EagerMessage is the longest message that may be sent on credit to a NIC of RoomyCapacity
	// while no other message longer than UnaskedMessage is in flight to the same process. For
	// longer messages the gain is small: the round trip of the request is short compared with
	// their transfer.
	EagerMessage = 65 << 10

	// RoomyCapacity is how many bytes may be in flight to a NIC that accepts EagerMessages: one
	// from each of many concurrent senders.
	RoomyCapacity = 1 << 20

	// StagedMessage is the longest message that is copied whole in one step. Such a message is
	// judged by its bytes, relayed, or goes to a process of the same NIC with its command. It
	// also bounds a message that waits in staging after asking for permission, and it is the
	// least that one permission adds.
	StagedMessage = 16 << 10

	// StagedOverhead is what a staged message costs in addition to its bytes, so that empty
	// messages use up credit too.
	StagedOverhead = 64

	// LeastStagingBytes is the smallest staging that a process may be configured to have: room
	// for the longest message that waits there. With less, such a message would never find room,
	// and its sender would wait for a receive, which programs do not expect.
	LeastStagingBytes = StagedMessage + StagedOverhead

	// RequestsPerSource bounds the open permission requests of one NIC at one process. The other
	// requests wait in order at the sender.
	RequestsPerSource = 64
)

// Links (internal/link/...).
const (
	// MaxFrame is the largest frame of any driver, in bytes: offsets within a frame fit 16 bits,
	// and UDP carries no more.
	MaxFrame = 64 << 10

	// LeastFrame is the smallest MTU, in bytes, that a driver may be given: the UDP payload that
	// the smallest IPv4 network carries.
	LeastFrame = 548

	// PollBatch is how many frames one Poll hands over, so that timers and the other phases get
	// their turn.
	PollBatch = 64

	// MemFrame is the MTU of the mem switch: a page.
	MemFrame = 4096

	// MemQueue is how many frames wait at one mem port before its senders are told to wait.
	MemQueue = 1024

	// HeldBytes is how many bytes of delayed frames one fault wrapper holds; frames beyond it are
	// lost. It is more than a window of full Ethernet frames.
	HeldBytes = 16 << 20

	// LoopbackFrame is the MTU of UDP over loopback. Loopback takes 64 KiB, but the 208 KiB
	// receive buffer of an unprivileged socket would hold only three such frames. It holds twelve
	// of these, and a batch has room for exactly four. The MTU is a whole number of cache lines,
	// so that adjacent frames each begin on one.
	LoopbackFrame = 65507 / 4 / 64 * 64

	// SocketBuffer is the buffer that UDP sockets ask for in each direction, in bytes. It holds
	// 1,024 full Ethernet frames with the kernel's bookkeeping, and is the usual value of a
	// raised rmem_max.
	SocketBuffer = 4 << 20

	// StageBytes is how many bytes of frames UDP stages before it sends them without a flush. One
	// batch of segmentation offload carries as much, and it is small enough to stay in the cache.
	StageBytes = 64 << 10

	// ShmRing is the data of one ring of shared memory, in bytes. It is so large that a line has
	// left the reader's own cache when the writer comes round, and no larger than the cache that
	// processors share. A ring of 1 MiB carries long messages an eighth slower; 4 and 8 MiB are
	// slower, too.
	//
	// ShmFrame is the MTU. A bulk frame costs its reader one cache miss in 64 KiB for the
	// record's words, and a ring holds 32 such frames. The headers take one cache line, and the
	// payload fills the others, so that the pieces of a message begin on cache lines at both
	// ends.
	ShmRing  = 2 << 20
	ShmFrame = 64<<10 - 16

	// LentLeast is the shortest batch that UDP lends to the kernel, in bytes. LentBytes, less an
	// eighth, is how many bytes are lent before the memory of the first loan is used again:
	// several times GrantedBytes, and what a peer's SocketBuffer holds. Twice as many are a
	// twentieth slower if the processors share a cache.
	LentLeast = 32 << 10
	LentBytes = SocketBuffer

	// DirectAfter is a count of short batches. If a peer has had this many more than all other
	// sends together, UDP turns its direct socket to that peer. After as many for other peers, it
	// turns the socket away. Both together cost some 3 µs, the gain of five frames.
	DirectAfter = 64

	// ShmPeers is the number of peers that one shared memory driver sends to and receives from.
	ShmPeers = 1024

	// XDPQueues is the default number of an interface's queues on which AF_XDP listens: each
	// takes 6 MiB of locked memory.
	XDPQueues = 16

	// PlainDestinations is how many destinations that batches do not reach are remembered. With
	// more, the driver sends no batches at all: the interface of this host is to blame, and each
	// batch would search a long list.
	PlainDestinations = 16

	// CaptureBuffer is how many bytes of frames a capture holds before they are written.
	CaptureBuffer = 8 << 20

	// CaptureFile is the default size of a capture file, in bytes: a gigabit link fills it in
	// some ten seconds, and Wireshark still opens it.
	CaptureFile = 1 << 30

	// LeastCapture is the smallest limit for such a file: its beginning, its end, and some
	// frames.
	LeastCapture = 4096

	// CaptureBlock is the longest block of a capture that a reader accepts, in bytes. A frame
	// takes 64 KiB, and so do the keys that are written together.
	CaptureBlock = 1 << 20

	// CaptureKeys is how many keys a reader of a capture keeps, of some 100 bytes each. A session
	// that changes its keys every 120 s takes 60 in an hour.
	CaptureKeys = 1 << 20

	// CaptureSnap is how much of each frame a capture has: all of it.
	CaptureSnap = MaxFrame
)

// Flow control and turns (internal/nic).
const (
	// ReceiveCapacityBytes is how many bytes may be in flight to a NIC whose driver knows no
	// capacity. A UDP socket whose buffer may not be raised has 208 KiB. Half of that is used,
	// since the kernel counts its own overhead.
	ReceiveCapacityBytes = 104 << 10

	// GrantedBytes is how many bytes a NIC permits at once, over all senders, if its link has
	// room. It is several times what is in flight in a round trip, so that the next sender has
	// begun when one ends or stalls (decision 8's overcommit). It is not more, since all of it
	// may be in the socket ahead of a short message: some half a millisecond.
	GrantedBytes = 512 << 10

	// GrantShare is how many NICs share GrantedBytes, if as many want some. So a slow NIC, or one
	// with long messages, leaves room for the others.
	GrantShare = 4

	// RoomWait is how long many messages to one process wait for credit or room before the next
	// asks for permission. A receiver reads for a hundred microseconds or more before it returns
	// some. A slower receiver gets the messages through the queue, where a message waits without
	// a core.
	RoomWait = 400 * time.Microsecond

	// RecallPatience is how long a message whose receive was cancelled may take to arrive. It is
	// longer than a NIC may be silent without being given up, and shorter than its process waits
	// for an answer.
	RecallPatience = 3 * time.Second

	// GrantPatience is how long a NIC may leave its permission unused, in addition to some round
	// trips. It is longer than an operating system's scheduler runs another program.
	GrantPatience = 10 * time.Millisecond

	// GetAdvance is how many bytes a GET permits even if GrantedBytes is used up: its bytes have
	// to begin somewhere.
	GetAdvance = 2 << 10

	// GrantBytes is what one permission adds at most, so that one long message does not take all
	// of GrantedBytes. A lossless link with more room allows more, and a single NIC that wants
	// some gets twice as much.
	GrantBytes = GrantedBytes / GrantShare

	// GrantLook is how many of the oldest waiting messages are searched for the shortest.
	GrantLook = 64

	// GrantOldest is the anti-starvation share: one permission in GrantOldest goes to the oldest
	// message instead of the shortest.
	GrantOldest = 8

	// SearchedMessages is how many messages without a receive are searched one by one; more are
	// indexed. The search takes a microsecond, as the index does.
	SearchedMessages = 256

	// CopiedMessage is the longest message that is copied into its segment, with others, so that
	// its memory is free at once. For longer messages that are in flight with others, a copy
	// costs more than waiting for the acknowledgement.
	CopiedMessage = 2048

	// LocalPiece is how many bytes one turn copies between two processes of one NIC: some 5 µs of
	// work, about the cost of a turn that sends a large frame.
	LocalPiece = 64 << 10

	// CommandsPerPoll is how many commands one poll takes from one process. With more, a process
	// that floods the NIC delays the others: round trips during a flood took 1.2 times as long
	// with 16, 1.5 with 32. With fewer, draining the queue costs more than the commands (5–7
	// against 11–12 M/s).
	CommandsPerPoll = 16

	// DeparturesPerPoll is how many outgoing messages guards judge in one poll: as many as one
	// poll takes commands from one process.
	DeparturesPerPoll = 16

	// CommandsShared replaces CommandsPerPoll if the NIC listens to several processes, which
	// divide it; each gets at least CommandsPerVisit. Two processes that make the NIC search its
	// tables delay the round trips of others, compared with two that compute. When 16 commands of
	// each were taken, round trips took 2.0 times as long; 1.5 with 16 divided, and 1.3 with 8.
	CommandsShared   = 8
	CommandsPerVisit = 2

	// Destinations is the largest number of live processes to which one process may have sent.
	// For each of them the NIC remembers the message count, in some 500 bytes. It is eight times
	// the members of the largest group.
	Destinations = 8 * GroupMembers

	// BlankDestinations is how many destinations without any sent message are remembered. It is
	// the number that a process may PUT to and GET from in turns without being introduced each
	// time.
	BlankDestinations = Contexts

	// ForgottenPerPoll is how many destinations one poll forgets when the process leaves: as many
	// steps as there are turns.
	ForgottenPerPoll = 256

	// DropsPerPoll is how many messages that the process never asked for one poll discards when
	// the process leaves. Each takes about as long as a command, and there may be 65,536 of them.
	DropsPerPoll = 16

	// HeldMessages is how many messages without a waiting process are held for a common flush: 18
	// frames of a common size, which leave as one. It is a quarter of that on a link where a
	// flush is no system call.
	HeldMessages = 256

	// InboxLeast is the longest message that every Inbox takes whole. Its ring is twice as long,
	// so there is room for all that one NIC may send on credit.
	InboxLeast = CreditBytes

	// InboxBytes is the longest message that an Inbox can take whole. Each longer message needs
	// its own buffer.
	InboxBytes = 1 << 28

	// RingBytes is how much memory an attached process may have in rings at once. It includes
	// messages put back from rings that have no room in the process's staging. The NIC keeps
	// those, so they are bounded as staging is.
	RingBytes = 4 << 20

	// RunMessages is how many messages one command sends at most. RunBytes is how many of their
	// bytes a process stages for it.
	RunMessages = 1024
	RunBytes    = 64 << 10

	// RingShown is the number of new bytes in a ring after which its process sees them, in the
	// middle of a poll.
	RingShown = 8 << 10

	// RingPlaces is how many messages may be in flight to one ring. So the next are permitted
	// while one arrives, and they are few enough for a linear search.
	RingPlaces = 16

	// TurnsPerPoll bounds the sending of one poll, so that receiving is never neglected for long.
	TurnsPerPoll = 256

	// IdlePolls is how many polls find a process idle before the NIC stops listening to its
	// queue.
	IdlePolls = 256

	// EmptyRings is how many times in a row a process may ring without a command before it is
	// thrown out. A process rings only after a post, so one or two are a race; more are not.
	EmptyRings = 1000

	// BadOperations is how many operations with bad arguments a process may ask for within a
	// second before it is thrown out.
	BadOperations = 10_000
)

// Names and nodes (internal/nic, decision 15).
const (
	// FailureTimeout is how long a NIC may be silent before its names are forgotten. It is
	// several times the time after which it is certain that the NIC does not answer.
	FailureTimeout = 10 * time.Second

	// GossipJoinEvery is how often a NIC asks its seeds until one answers. A fabric whose hosts
	// start together is complete one second after the last start.
	GossipJoinEvery = time.Second

	// GossipRejoinEvery is how often it calls seeds and lost members afterwards, so that it
	// notices a healed partition.
	GossipRejoinEvery = 5 * time.Second

	// GossipCall is how long it waits for one of them to answer.
	GossipCall = 2 * time.Second

	// GossipLost is how many addresses of lost members are remembered. Each call goes to one of
	// them. GossipForget is how long they are remembered: the longest partition that heals by
	// itself when no seed is left.
	GossipLost   = 64
	GossipForget = 24 * time.Hour

	// GatherWithin is how long claims to names wait for an expected NIC to come up and tell its
	// own claims. A lost hello is retransmitted within this time.
	GatherWithin = 2 * HelloEvery

	// NodeAddresses is how many addresses of a host's name are tried: a host seldom has more than
	// two of each family.
	NodeAddresses = 8

	// RetryAtMost is the longest pause between two attempts to open a session with an expected
	// NIC that does not answer. Each attempt takes as long as it takes to be sure. A NIC that
	// comes back calls the others itself, if it knows of them.
	RetryAtMost = 4 * time.Second

	// ConfirmWithin is how long a claim waits at most for the name's home. It is less than
	// attaching processes wait for their daemon. With the default unreachable_after it is long
	// enough to give up a silent home and ask the next.
	ConfirmWithin = 3 * time.Second

	// NameKeep is how long the name of an ended process is kept for its last messages. It is
	// longer than a peer can be silent without being given up.
	NameKeep = 5 * time.Second

	// NamesPerNIC is how many names one NIC may have in the tables of the others: all its
	// processes, and those that ended within NameKeep.
	NamesPerNIC = 4 * MaxProcesses

	// EndsPerName is how many ended processes of one NIC with the same name are kept for
	// NameKeep. Each lookup of the name visits them all. The oldest beyond it are forgotten at
	// once: no program is restarted that often.
	EndsPerName = 128

	// SourcesPerPeer is how many processes of one NIC a process of another remembers as senders:
	// all that can exist, and as many that have ended.
	SourcesPerPeer = 2 * MaxProcesses

	// HearsayPerTeller is how many NICs that have not answered yet one peer may tell of. The
	// largest fabric in Weft's tests has as many NICs, and a newcomer hears of them from its
	// first peer. HearsayTries is how often such a NIC is called, with HearsayHellos Hellos each:
	// if one frame in five is lost each way, all 6 Hellos fail once in 450 times. Hearsay bounds
	// the rumours of all tellers: each takes about 100 bytes.
	HearsayPerTeller = 1024
	HearsayTries     = 3
	HearsayHellos    = 2
	Hearsay          = 4096

	// HearsayCalls is how many NICs are called on hearsay concurrently. HearsayCallsPerTeller is
	// how many of them come from one peer. A call to a NIC that exists ends after a round trip,
	// so the calls that a lying peer wastes leave enough for others.
	HearsayCalls          = 32
	HearsayCallsPerTeller = 8

	// HearsayCallsPerHost is how many calls one NIC makes on hearsay to an IP address at which no
	// NIC has answered, for all tellers together: 96 Hellos. The count is forgotten after
	// HearsayForgiven. HearsayHosts bounds the addresses that are remembered.
	HearsayCallsPerHost = 48
	HearsayForgiven     = time.Minute
	HearsayHosts        = 1024

	// StrangerShare is the part of the peer table that strangers may fill: a quarter. A stranger
	// is a NIC that says hello for the first time. The rest is for NICs that the configuration
	// names, and for NICs whose session has opened.
	StrangerShare = 4

	// VoidsPerPeer is how many numbers of withdrawn messages one NIC may have parked at one
	// process. Each cost its sender a round through its process's queue, so a gap closes long
	// before there are so many.
	VoidsPerPeer = 8192

	// CallsGivenUp is how many abandoned calls of one NIC to one process are remembered. A newer
	// one replaces the oldest. The reply to a forgotten call is sent, and the caller's NIC drops
	// it.
	CallsGivenUp = 1024

	// CallsGivenUpPerPeer is the same for all processes together. At some 50 bytes each, one NIC
	// costs this one at most half a megabyte, however many processes it calls.
	CallsGivenUpPerPeer = 8192

	// GoneGrace is how long receives from a process stay posted after the news of its end, since
	// its last messages may arrive later: two of the longest first retransmissions.
	GoneGrace = 200 * time.Millisecond
)

// Groups (internal/nic).
const (
	// GroupMembers is the largest group: four times the hosts of the largest fabric in Weft's
	// tests.
	GroupMembers = 4096

	// Groups is how many groups one process may be in. The groups to which it shrinks these do
	// not count.
	Groups = 64

	// SeatsPerNIC is how many memberships of one NIC's processes every other NIC keeps: all that
	// they may have.
	SeatsPerNIC = MaxProcesses * 2 * Groups

	// MulticastReceivers is how many receivers one Multicast may name: as many as fit four pages
	// of names.
	MulticastReceivers = 512

	// MulticastCopies is how many multicast messages of one process may be in flight. It is twice
	// the receivers of one multicast, so that the next begins while the last messages of the one
	// before are still unacknowledged. Each takes a kilobyte of the NIC's tables.
	MulticastCopies = 2 * MulticastReceivers

	// RelayBody is the longest relay, in bytes: the longest message that is copied as a whole,
	// behind a list of as many NICs as a multicast has receivers, with one receiver each: 32 +
	// 512·(32 + 12).
	RelayBody = StagedMessage + 32 + MulticastReceivers*44

	// RelayBytes bounds the relays in flight from one NIC to another: three of the longest, or
	// hundreds of short ones. A NIC may have to keep as much for each other NIC, until the rest
	// of a relay has arrived or the next NIC can take it. A receiver beyond the bound gets the
	// message from its source.
	RelayBytes = 128 << 10

	// RelaySaves is how many bytes a relay must save its source: two pages. Each level of the
	// tree costs the time in which a NIC notices a frame, and the return path as much. So a few
	// short messages, which share frames, arrive sooner without a relay. With 8 NICs in one
	// program on two cores, over UDP, 64 B to 8 processes took 1.2 ms by a relay and 0.4 ms
	// without, 4 KiB to 8 took 1.3 and 1.9 ms, and 4 KiB to 64 took 1.5 and 7 ms.
	RelaySaves = 2 * PageBytes

	// RelayOverhead is the size that each relay counts for in addition to its length, in bytes:
	// the tables that it takes up.
	RelayOverhead = 256

	// BroadcastBytes is the most that one broadcast carries, in bytes. Longer ones are cut into
	// several, so that a NIC never holds more than this of one.
	BroadcastBytes = 256 << 10

	// TransitBytes is how many bytes in transit to others the NIC holds for one membership: two
	// broadcasts, so that one arrives while the other leaves.
	TransitBytes = 2 * BroadcastBytes

	// GroupStaging is how many more bytes it holds of complete broadcasts that the process has
	// not asked for yet. Broadcasts beyond it are fetched from the root later.
	GroupStaging = 2 * BroadcastBytes

	// GroupStagedOperations bounds the number of those broadcasts, since short ones take up
	// tables rather than memory.
	GroupStagedOperations = 64

	// GroupAhead is how many operations other members may be ahead of a process, in addition to
	// one for each of them.
	GroupAhead = 256

	// TorusSide is the longest side of a torus: a row of the largest group.
	TorusSide = GroupMembers

	// TreesKept is the number of roots for which a member remembers its place in the tree: most
	// groups have no more members.
	TreesKept = 256

	// StandingGroups, StandingWaits and StandingUnread bound what a NIC tells about one process
	// that may hang. The oldest entries show the cause, and a process may have thousands.
	StandingGroups = 16
	StandingWaits  = 16
	StandingUnread = 8

	// GroupStarted bounds the unfinished started operations of one process in one group. They run
	// one after another, so more would not be faster. A program that starts a reduction for each
	// layer of a network has room for 64 layers.
	GroupStarted = 64

	// PartNameBytes bounds the name of a part of a group, in bytes: the longest name of a group,
	// and ten splits with small numbers.
	PartNameBytes = 64

	// GatheredReduction bounds the bytes of vectors that one member gathers, and combines for
	// all, in a reduction by a function. Longer vectors are reduced in parts, so that the member
	// does not receive the data of the whole group.
	GatheredReduction = 1 << 20

	// CollectivesUnderWay is how many operations of one group a process has in flight when it
	// cuts a long one into pieces.
	CollectivesUnderWay = 4
)
