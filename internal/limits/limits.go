// Package limits names every capacity, budget and default time-out of Weft, each with its reason.
//
// A number that bounds something is in this package and nowhere else: of the engine and what is below it in this file, of processes and a daemon's
// clients in clients.go, of programs in programs.go.
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

	// PaceBurst is what a paced sender may send at once, in bytes: one batch of segmentation offload, and less than what a
	// switch keeps for a port.
	PaceBurst = 64 << 10

	// CommandMTU is the largest frame of the command queue, in bytes (USNIC-14): some forty 64-byte messages, and not
	// more, so that a control record never waits behind much.
	CommandMTU = 4096

	// ReceiveCapacity is how many bytes of frames may be under way to a NIC that does not say: the socket buffer that
	// Linux gives a UDP socket which did not ask.
	ReceiveCapacity = 208 << 10

	// FrameCost is what a frame takes of a receive capacity beside its bytes: the kernel charges a socket buffer for a
	// packet's bookkeeping too.
	FrameCost = 768

	// ChannelShare is the part of a receive capacity, as a divisor, that is kept for each channel, so that neither
	// queue can shut the other out.
	ChannelShare = 8

	// Rooms is how many segments of one NIC may await acknowledgement, over all peers; one in RoomReserve of them is let
	// to control and retransmissions only.
	Rooms       = 32768
	RoomReserve = 32

	// ControlBacklog is how many segments of control may wait for one peer's window. Each peer's records ask for a
	// bounded number of answers, and coalesce twenty and more to a segment, so only a peer that keeps asking and
	// acknowledges nothing gets here. It is cut off.
	ControlBacklog = 1024

	// PendingSessions bounds the half-open sessions of one NIC; the oldest gives way.
	PendingSessions = 256

	// HandshakeWindow is the time in which handshakes are counted. A handshake takes some 0.15 ms
	// of a processor.
	HandshakeWindow = 100 * time.Millisecond

	// HandshakesUnproved is how many Hellos are worked on in a window before their senders must
	// prove that they receive at their addresses: a hundred NICs that start at once need no proof.
	HandshakesUnproved = 100

	// HandshakesAtMost bounds the handshakes of a window, proof or not: half of a processor.
	HandshakesAtMost = 330

	// HandshakesOfAddress is how many of these may be of one address that has proved itself, so
	// that others have their turn.
	HandshakesOfAddress = 40

	// RenewAfter is the age of a handshake at which another one gives a session fresh keys.
	RenewAfter = time.Hour

	// RenewAgain is the time after which a message of such a handshake leaves again.
	RenewAgain = time.Second

	// ReorderFrames is by how many frames one may be overtaken before it counts as lost.
	ReorderFrames = 3

	// FirstRounds is in how many of a session's first rounds much loss throws doubt on the driver's batches. Later on the cause is
	// a full queue.
	FirstRounds = 4

	// SizeDoubt is how often a long frame is lost before it is asked whether its length still gets through, which costs three probes. SureFrame
	// is the length that a session begins with, in bytes: every IPv6 path carries 1,280 with its headers. Should even that be lost, there is LeastFrame.
	SizeDoubt = 2
	SureFrame = 1232

	// PathTries is how often a probe is lost, and a small one is not, before its length counts as more than the path carries: with
	// one frame in five lost each way, that is wrong once in 350 times, and found out PathRaise later. PathStep is how exactly
	// the length of the longest frame is found out, in bytes: 1 % of Ethernet's.
	PathTries = 4
	PathStep  = 16

	// PartedSegments is how many segments of one peer may be put together of parts at a time, and PartedSegmentsInAll of all
	// peers: parts come in order but for what is lost, so that few are open, and each takes a frame's length of memory.
	PartedSegments      = 8
	PartedSegmentsInAll = 256

	// DatagramsJoining is how many datagrams of one peer may be put together of pieces at a time, and DatagramsJoiningInAll of all
	// peers: each takes up to 16 KiB (32 KiB of the pool), so 256 KiB and 4 MiB at most.
	DatagramsJoining      = 8
	DatagramsJoiningInAll = 128

	// DatagramsWaiting is how many datagrams to one peer may wait for the next turn, and DatagramsWaitingInAll to all peers: one that
	// sends more in a turn can as well be told so, since a datagram may be lost anyway.
	DatagramsWaiting      = 64
	DatagramsWaitingInAll = 512

	// TailProbes is how many tail-loss probes go out before the retransmit timer's turn.
	TailProbes = 2

	// CheckTries is how often the connectivity check asks in each size (USNIC-61).
	CheckTries = 8
)

// Times (internal/rel, decision 7).
const (
	// DatagramPatience is for how long the missing pieces of a datagram are waited for. They leave together, so a piece that is later
	// than a round trip of a slow path is lost.
	DatagramPatience = 100 * time.Millisecond

	// PathPatience is for how long probes of a path's MTU are waited for at the least, beyond which it is four round trips, and
	// PathRaise after how long a path that carried less is tried anew.
	PathPatience = 20 * time.Millisecond
	PathRaise    = 30 * time.Second

	AckDelay          = 50 * time.Microsecond  // USNIC-48
	FirstRetransmit   = 100 * time.Millisecond // USNIC-45: until an RTT has been measured
	LeastLateness     = time.Millisecond       // of an answer, beyond the round trip: below this, a descheduled peer looks like a loss
	LongestRetransmit = 500 * time.Millisecond // a quarter of UnreachableAfter, so that several tries fit into it
	HelloEvery        = 250 * time.Millisecond
	ProbeEvery        = 250 * time.Millisecond // USNIC-61's ping interval
	UnreachableAfter  = 2 * time.Second

	// LeastUnreachableAfter is less than any network is silent for by itself, MostUnreachableAfter more than anything waits for.
	LeastUnreachableAfter = 10 * time.Millisecond
	MostUnreachableAfter  = time.Hour
)

// Shared memory (internal/vni). M = Contexts, N = Commands, K = Descriptors, Q = PoolPages (QNIX-61).
const (
	Contexts     = 64        // pending sends, and pending receives, of one process
	Commands     = 256       // N ≥ 2M, so that every context can have its command and a Cancel posted
	Descriptors  = 16        // pieces of memory that one operation describes at a time
	PoolPages    = 256       // 1 MiB staged at a time by an attached process
	PageBytes    = 4096      // the page of every host that Weft runs on
	ShortMessage = 768       // longest message written into its context region (QNIX-18); equals TinyMessage
	NameBytes    = 24        // longest application name
	Processes    = 128       // VNIs that a NIC makes before a process asks (QNIX-3)
	MaxProcesses = 4096      // P at most
	Refills      = 16        // operations of one process whose descriptors may be refilled at a time
	RefillBytes  = 512 << 10 // of the pool that one of them takes at most: half, so that two large ones go on at a time
	RefillSlots  = 8         // pieces of that: one is copied while others are posted and acknowledged
	Regions      = 1024      // regions that one process may have open
	Temporaries  = 4         // regions kept by an attached process for messages that its pool cannot hold
	RegionBytes  = 1 << 30   // registered by one attached process, unless the daemon's configuration says otherwise
	MaxRegion    = 64 << 30  // bytes; offsets are signed 64-bit everywhere, this is for sanity
	MappedRegion = 64 << 20  // and more are mapped for an embedded NIC, so that memory that is not there is an error; less is of Go's heap
	SimRegion    = 1 << 30   // of a simulated process at most: its memory is of Go's heap, which ends the program where there is none

	// DefaultProcesses is P unless configured: what the 4,096 file descriptors that many systems allow a program suffice for,
	// with three for each process.
	DefaultProcesses = 1024

	// MaxCommands, MaxContexts and MaxPoolPages bound what a process may ask for: sixteen times the usual, and 64 MiB of pool,
	// which take 67 MiB of the daemon's address space and 3 MiB of its memory before they are used.
	MaxCommands  = 16 * Commands
	MaxContexts  = 16 * Contexts
	MaxPoolPages = 64 * PoolPages

	// IdleVNIBytes bounds what one process of the usual geometry costs a daemon that is attached and does nothing, in memory:
	// with it, 1,024 take 320 MiB.
	IdleVNIBytes = 320 << 10

	// IdlePeerBytes bounds what one NIC costs another that has a session with it and nothing under way: with it, 1,000 take 32 MB.
	IdlePeerBytes = 32 << 10

	// DriverCommands is D: commands of the driver that are not yet answered (QNIX-61). A New_Process may wait for news from
	// another NIC, and this is how many may do so before those behind them have to wait too.
	DriverCommands = 256
)

// Messages (internal/nic, decision 8).
const (
	// KeptBytes bounds the copies that one NIC keeps of messages of several frames until they are acknowledged. Beyond it their callers wait for that, so
	// that peers which acknowledge all of a message but its end cost no more. Thousands of messages may be under way below it.
	KeptBytes = 64 << 20

	// StagingBytes is the managed memory in which one process's unexpected messages wait. Credits handed out for a
	// process never add up to more.
	StagingBytes = 4 << 20

	// CreditBytes is what one sending NIC is handed of a process's staging at a time: a GRO batch carries 700 small
	// messages, and one batch must fit.
	CreditBytes = 256 << 10

	// UnaskedMessage is the longest message of which many may go without permission, on credit, to any NIC: 16 KiB, and the head that its user
	// has put before it.
	UnaskedMessage = 17 << 10

	// EagerMessage is the longest of which one at a time may, to a NIC of RoomyCapacity. Longer ones gain little: the round trip of the request
	// is small beside their transfer.
	EagerMessage = 65 << 10

	// RoomyCapacity is how many bytes may be under way to a NIC that takes those unasked: one from each of many that send at a time.
	RoomyCapacity = 1 << 20

	// StagedMessage is the longest message that is copied as a whole in one step: judged by its bytes, relayed, or brought to a process of the same NIC
	// with its command. So long is what waits in staging though it had to ask, and it is the least that one permission adds.
	StagedMessage = 16 << 10

	// StagedOverhead is what a staged message costs beside its bytes, so that empty messages use up credit too.
	StagedOverhead = 64

	// LeastStagingBytes is the smallest staging that a process may be configured to have: room for the longest message that waits there. With less,
	// such a message would find no room ever, and its sender wait for a receive, which programs do not reckon with.
	LeastStagingBytes = StagedMessage + StagedOverhead

	// RequestsPerSource bounds the permission requests of one NIC that may stand open at one process; the rest wait in
	// order at the sender.
	RequestsPerSource = 64
)

// Links (internal/link/...).
const (
	// MaxFrame is the largest frame, in bytes, of any driver: offsets within a frame fit 16 bits, and UDP takes no more.
	MaxFrame = 64 << 10

	// LeastFrame is the smallest MTU, in bytes, that a driver may be given: what the smallest IPv4 network carries of UDP.
	LeastFrame = 548

	// PollBatch is how many frames one Poll hands over, so that timers and the other phases get their turn.
	PollBatch = 64

	// MemFrame is the MTU of the mem switch: a page.
	MemFrame = 4096

	// MemQueue is how many frames wait at one mem port before its senders are told to wait.
	MemQueue = 1024

	// HeldBytes is what one fault wrapper holds back of delayed frames; what is beyond is lost. It is more than a
	// window of full Ethernet frames.
	HeldBytes = 16 << 20

	// LoopbackFrame is the MTU of UDP over loopback. Loopback takes 64 KiB, but the 208 KiB receive buffer of an
	// unprivileged socket would hold three of those; it holds twelve of these, and a batch has room for just four.
	// Whole cache lines, so that each begins with one where they lie side by side.
	LoopbackFrame = 65507 / 4 / 64 * 64

	// SocketBuffer is what UDP sockets ask for, each way, in bytes: 1,024 full Ethernet frames with the kernel's
	// bookkeeping, and what rmem_max is commonly raised to.
	SocketBuffer = 4 << 20

	// StageBytes is how many bytes of frames UDP stages before it sends of its own accord: what one batch of segmentation
	// offload can carry, and little enough to stay in the cache.
	StageBytes = 64 << 10

	// ShmRing is the data of one ring of shared memory, in bytes: so much that a line has left the reader's own cache when the writer comes
	// round, and not more than what processors share. A ring of 1 MiB carries long messages an eighth slower, 4 and 8 MiB are slower, too. ShmFrame is the MTU:
	// a bulk frame costs its reader one cache miss for the record's words in 64 KiB, and a ring holds 32 of them. Their headers take a
	// cache line, and their payload fills the others, so that the pieces of a message begin on lines at both ends.
	ShmRing  = 2 << 20
	ShmFrame = 64<<10 - 16

	// LentLeast is how long a batch is, in bytes, that UDP lends to the kernel, and LentBytes how many are lent before the memory of
	// the first is used again, but for an eighth: several times GrantedBytes, and what a peer's SocketBuffer holds. Where processors share a cache, twice as many are a twentieth slower.
	LentLeast = 32 << 10
	LentBytes = SocketBuffer

	// DirectAfter is how many short batches more than all other sends together a peer must have had for UDP's direct socket to be
	// turned to it, and how many others then have before it is turned away. Both together cost some 3 µs, what five frames gain.
	DirectAfter = 64

	// ShmPeers is how many others one driver of shared memory sends to, and receives from.
	ShmPeers = 1024

	// XDPQueues is on how many queues of an interface AF_XDP listens unless told: each has 6 MiB of locked memory.
	XDPQueues = 16

	// PlainDestinations is how many destinations may be remembered that batches do not get through to. With more, no batch
	// is sent at all: this host's interface is to blame, and a long list would be searched for every batch.
	PlainDestinations = 16

	// CaptureBuffer is what a capture holds of frames that are not written yet, in bytes.
	CaptureBuffer = 8 << 20

	// CaptureFile is how long the file of a capture becomes: a gigabit link fills it in some ten seconds, and Wireshark still opens it.
	CaptureFile = 1 << 30

	// LeastCapture is the shortest limit of such a file: its beginning, its end, and some frames.
	LeastCapture = 4096

	// CaptureBlock is the longest block of a capture that a reader takes, in bytes: a frame takes
	// 64 KiB, and so do the keys that are written at once.
	CaptureBlock = 1 << 20

	// CaptureKeys is how many keys a reader of a capture keeps, of some 100 bytes each. A session
	// that changes its keys every 120 s takes 60 in an hour.
	CaptureKeys = 1 << 20

	// CaptureSnap is how much of each frame a capture has: all of it.
	CaptureSnap = MaxFrame
)

// Flow control and turns (internal/nic).
const (
	// ReceiveCapacityBytes is what may be under way to a NIC whose driver knows no better: the 208 KiB that a UDP socket
	// has where they may not be raised, halved, since the kernel counts its own overhead.
	ReceiveCapacityBytes = 104 << 10

	// GrantedBytes is what a NIC permits at a time, over all senders, where its link has room for that: several times what
	// is under way in a round trip, so that the next sender has begun when one ends or stalls (decision 8's overcommit),
	// and not more, since all of it may stand in the socket before a short message: some half a millisecond.
	GrantedBytes = 512 << 10

	// GrantShare is how many NICs share that, as far as so many want some: one that is slow, or has long messages, leaves
	// the others room.
	GrantShare = 4

	// RoomWait is for how long many messages to one process wait for credit or room before the next asks for permission: a receiver
	// reads a hundred microseconds and more before it gives some back. One that takes longer gets them by the queue, where a message
	// waits without a core.
	RoomWait = 400 * time.Microsecond

	// RecallPatience is how long a message may take to come whose receive was cancelled: longer than a NIC is silent without
	// being given up, shorter than its process waits for an answer.
	RecallPatience = 3 * time.Second

	// GrantPatience is how long a NIC may leave what it was permitted lie, beside some round trips: longer than an
	// operating system lets another program run.
	GrantPatience = 10 * time.Millisecond

	// GetAdvance is what a GET permits though the bound is reached: its bytes have to begin somewhere.
	GetAdvance = 2 << 10

	// GrantBytes is what one permission adds at most, so that one long message does not take all of it; more where a link that loses
	// nothing has room for more, and twice as much while only one NIC wants some.
	GrantBytes = GrantedBytes / GrantShare

	// GrantLook is among how many waiting messages, the oldest, the shortest is sought.
	GrantLook = 64

	// GrantOldest is how often permission goes to the oldest instead of the shortest: the anti-starvation share is 1/8.
	GrantOldest = 8

	// SearchedMessages is how many messages without a receive are searched one by one; more are indexed. It takes a
	// microsecond, as the index does.
	SearchedMessages = 256

	// CopiedMessage is the longest message that is copied into its segment, with others, so that its memory is free at once. To copy
	// more of what is under way with others costs more than to have it acknowledged first.
	CopiedMessage = 2048

	// LocalPiece is what one turn copies between two processes of one NIC: some 5 µs of work, about what a turn costs that
	// sends a large frame.
	LocalPiece = 64 << 10

	// CommandsPerPoll is how many commands are taken from one process in one poll. With more, a process that floods the NIC
	// keeps the others waiting: round trips beside one took 1.2 times as long with 16, 1.5 with 32. With fewer, draining costs more than
	// the commands (5–7 against 11–12 M/s).
	CommandsPerPoll = 16

	// DeparturesPerPoll is how many outgoing messages guards judge in one poll: as many as one process has commands taken.
	DeparturesPerPoll = 16

	// CommandsShared is how many where the NIC listens to several processes, which divide them, but of each CommandsPerVisit at least. Round
	// trips beside two that have it search their tables took 2.0 times as long as beside two that compute, when 16 of each were
	// taken; 1.5 with 16 divided, 1.3 with 8.
	CommandsShared   = 8
	CommandsPerVisit = 2

	// Destinations is how many processes that have not gone one process may have sent to: of each its NIC remembers the count of the
	// messages, in some 500 bytes. It is each member of the largest group eight times.
	Destinations = 8 * GroupMembers

	// BlankDestinations is how many of those are remembered that no message has left for: as many as a process may PUT to and GET from in
	// turns without being introduced each time.
	BlankDestinations = Contexts

	// ForgottenPerPoll is how many of them are forgotten in one poll when the process leaves: as many steps as there are turns.
	ForgottenPerPoll = 256

	// DropsPerPoll is how many messages that a process never asked for are let go of in one poll when it leaves: each takes
	// about as long as a command, and there may be 65,536 of them.
	DropsPerPoll = 16

	// HeldMessages is how many messages that no process waits for are kept for a common flush, or a quarter of it on a link
	// where a flush is no system call: 18 frames of a common size, which leave as one.
	HeldMessages = 256

	// InboxLeast is the longest message that every Inbox takes whole. Its ring is twice as long, so whatever one NIC may send
	// on credit finds room.
	InboxLeast = CreditBytes

	// InboxBytes is the longest message that an Inbox can take whole. Longer ones need a buffer each.
	InboxBytes = 1 << 28

	// RingBytes is how much memory an attached process may have in rings at a time, together with what was put back from rings and
	// has no room in its staging: the NIC keeps that, so it is bounded as staging is.
	RingBytes = 4 << 20

	// RunMessages is how many messages one command sends at most, and RunBytes how many bytes of them a process stages for it.
	RunMessages = 1024
	RunBytes    = 64 << 10

	// RingShown is after how many bytes a process is shown what has come into its ring, in the middle of a poll.
	RingShown = 8 << 10

	// RingPlaces is how many messages may be on their way into one ring at a time: so many that the next are permitted while one comes, and
	// few enough to be looked through.
	RingPlaces = 16

	// TurnsPerPoll bounds one poll's sending, so that receiving is never left alone for long.
	TurnsPerPoll = 256

	// IdlePolls is how many polls find a process idle before its queue is listened to no more.
	IdlePolls = 256

	// EmptyRings is how often in a row a process may ring without a command before it is thrown out. A process rings only
	// after a post, so that one or two are a race, and not more.
	EmptyRings = 1000

	// BadOperations is how many operations with bad arguments a process may ask for within a second before it is thrown
	// out.
	BadOperations = 10_000
)

// Names and nodes (internal/nic, decision 15).
const (
	// FailureTimeout is how long a NIC may be silent until its names are forgotten: several times as long as it takes to be
	// sure that it does not answer.
	FailureTimeout = 10 * time.Second

	// GossipJoinEvery is how often a NIC asks its seeds until one answers: a fabric whose hosts start together is complete
	// a second after the last.
	GossipJoinEvery = time.Second

	// GossipRejoinEvery is how often it calls seeds and lost members afterwards, so that a healed partition is noticed.
	GossipRejoinEvery = 5 * time.Second

	// GossipCall is how long it waits for one of them to answer.
	GossipCall = 2 * time.Second

	// GossipLost is how many addresses of lost members are remembered, one of which is called each time, and GossipForget
	// for how long: the longest partition that heals by itself when no seed is left.
	GossipLost   = 64
	GossipForget = 24 * time.Hour

	// GatherWithin is how long claims to names wait for a NIC that should be there to come up and tell its own: a hello that
	// was lost is sent again by then.
	GatherWithin = 2 * HelloEvery

	// NodeAddresses is how many addresses of a host's name are tried: a host seldom has more than two of each family.
	NodeAddresses = 8

	// RetryAtMost is the longest pause between two attempts to open a pair with a NIC that is to be there and is not. Each
	// attempt takes as long as it takes to be sure. One that comes back calls the others itself, if it knows of them.
	RetryAtMost = 4 * time.Second

	// ConfirmWithin is how long a claim waits at most for the name's home: less than attaching processes wait for their
	// daemon, and with the usual unreachable_after long enough to give up a silent home and ask the next.
	ConfirmWithin = 3 * time.Second

	// NameKeep is how long the name of a process that has gone is kept for its last messages: longer than a peer can be
	// silent without being given up.
	NameKeep = 5 * time.Second

	// NamesPerNIC is how many names one NIC may have in the tables of the others: all its processes, and those that have
	// gone within NameKeep.
	NamesPerNIC = 4 * MaxProcesses

	// EndsPerName is how many processes of one NIC that had one name and have ended are kept for NameKeep. Each look at the
	// name looks at them all. The oldest ones beyond are forgotten at once: no program is started anew so often.
	EndsPerName = 128

	// SourcesPerPeer is how many processes of one NIC one process of another remembers as senders: all there can be, and
	// as many that have gone.
	SourcesPerPeer = 2 * MaxProcesses

	// HearsayPerTeller is how many NICs one peer may tell of that have not answered yet: so many
	// NICs has the largest fabric that Weft is tested on, and a newcomer hears of them from its
	// first peer. HearsayTries is how often such a NIC is called, with HearsayHellos Hellos each:
	// if one frame in five is lost each way, all 6 Hellos fail once in 450 times. Hearsay bounds
	// the rumours of all tellers: each takes about 100 bytes.
	HearsayPerTeller = 1024
	HearsayTries     = 3
	HearsayHellos    = 2
	Hearsay          = 4096

	// HearsayCalls is how many NICs are called on hearsay at the same time, and
	// HearsayCallsPerTeller how many of them one peer has told of: a call to a NIC that exists ends
	// after a round trip, so the calls that a liar wastes leave enough.
	HearsayCalls          = 32
	HearsayCallsPerTeller = 8

	// HearsayCallsPerHost is how many calls one NIC makes on hearsay to an IP address at which no
	// NIC has answered, whoever tells of it: 96 Hellos. They are forgotten after HearsayForgiven.
	// HearsayHosts bounds the addresses that are remembered.
	HearsayCallsPerHost = 48
	HearsayForgiven     = time.Minute
	HearsayHosts        = 1024

	// StrangerShare is the part of the peer table that strangers may fill, NICs that say hello for
	// the first time: a quarter. The rest is for NICs that configuration names, and for NICs whose
	// session has opened.
	StrangerShare = 4

	// VoidsPerPeer is how many numbers of withdrawn messages one NIC may have parked at one process. Each cost its sender
	// a round through its process's queue, so a gap closes long before there are so many.
	VoidsPerPeer = 8192

	// CallsGivenUp is how many calls of one NIC to one process are remembered that their callers have given up. A newer one takes the
	// place of the oldest; a reply to that is sent, and dropped by the caller's NIC.
	CallsGivenUp = 1024

	// CallsGivenUpPerPeer is the same for all processes together: at some 50 bytes each, one NIC costs this one
	// half a megabyte at most, however many processes it calls.
	CallsGivenUpPerPeer = 8192

	// GoneGrace is how long receives from a process outlive the news of its end, since its last messages may come after
	// it: two of the longest first retransmissions.
	GoneGrace = 200 * time.Millisecond
)

// Groups (internal/nic).
const (
	// GroupMembers is the largest group: every host of the largest fabric that Weft is tested on, four times.
	GroupMembers = 4096

	// Groups is how many groups one process may be in, beside those that it shrinks these to.
	Groups = 64

	// SeatsPerNIC is how many memberships of one NIC's processes every other keeps: all that these may have.
	SeatsPerNIC = MaxProcesses * 2 * Groups

	// MulticastReceivers is how many receivers one Multicast names: what four pages of names hold.
	MulticastReceivers = 512

	// MulticastCopies is how many messages of multicasts a process has under way: twice what one multicast has, so that
	// the next begins while the last of the one before are still waited for. Each is a kilobyte of the NIC's tables.
	MulticastCopies = 2 * MulticastReceivers

	// RelayBody is the longest relay, in bytes: the longest message that is copied as a whole,
	// behind a list of as many NICs as a multicast has receivers, with one receiver each: 32 +
	// 512·(32 + 12).
	RelayBody = StagedMessage + 32 + MulticastReceivers*44

	// RelayBytes bounds the relays in flight from one NIC to another: three of the longest, or
	// hundreds of short ones. A NIC may have to keep as much of each other NIC, until the rest of a
	// relay has come or the next NIC can take it. A receiver beyond it gets the message from its
	// source.
	RelayBytes = 128 << 10

	// RelaySaves is what a relay must save its source: two pages. Each level of the tree costs the time in which a NIC
	// notices a frame, and the way back as much; so a few short messages, which share frames, are there sooner without it.
	// With 8 NICs in one program on two cores, over UDP, 64 B to 8 processes took 1.2 ms by a relay and 0.4 ms without,
	// 4 KiB to 8 took 1.3 and 1.9 ms, and 4 KiB to 64 took 1.5 and 7 ms.
	RelaySaves = 2 * PageBytes

	// RelayOverhead is counted for each relay besides, for the tables that it takes up, in bytes.
	RelayOverhead = 256

	// BroadcastBytes is the most that one broadcast carries; longer ones are several, so that a NIC never holds more than
	// this of one.
	BroadcastBytes = 256 << 10

	// TransitBytes is what the NIC holds for one membership of what is on its way to others: two broadcasts, so that
	// one comes while the other goes.
	TransitBytes = 2 * BroadcastBytes

	// GroupStaging is what it holds besides of broadcasts that are complete and whose process has not asked for them.
	// What comes on top is fetched from the root later.
	GroupStaging = 2 * BroadcastBytes

	// GroupStagedOperations bounds the number of those, since short ones take up tables rather than memory.
	GroupStagedOperations = 64

	// GroupAhead is how many operations other members may be ahead of a process, beside one for each of them.
	GroupAhead = 256

	// TorusSide is the longest side of a torus: a row of the largest group.
	TorusSide = GroupMembers

	// TreesKept is of how many roots a member remembers its place in the tree: most groups have no more members.
	TreesKept = 256

	// StandingGroups, StandingWaits and StandingUnread bound what a NIC tells about one process that may hang: the oldest
	// entries tell the cause, and a process may have thousands.
	StandingGroups = 16
	StandingWaits  = 16
	StandingUnread = 8

	// GroupStarted bounds the operations of one group that a process has started and that are not done. They run one after the other, so
	// more would not be faster; a program that starts a reduction for each layer of a network has room for 64 layers.
	GroupStarted = 64

	// PartNameBytes bounds the name of a part of a group, in bytes: the longest name of a group, and ten splits with small numbers.
	PartNameBytes = 64

	// GatheredReduction bounds the bytes of vectors that one member gathers, and combines for all, in a reduction by a function. Longer
	// vectors are reduced in parts, so that the member does not receive the whole group's data.
	GatheredReduction = 1 << 20

	// CollectivesUnderWay is how many operations of one group a process has under way at a time when it cuts a long one into
	// pieces.
	CollectivesUnderWay = 4
)
