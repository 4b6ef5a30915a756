package limits

import "time"

// Closing (package weft).
const (
	// LingerAtClose is how long a NIC that is closed waits for its last messages to be acknowledged.
	LingerAtClose = UnreachableAfter

	// LingerStep is how often it looks.
	LingerStep = 100 * time.Microsecond
)

// Clients of a daemon (internal/daemon).
const (
	// DaemonPatience is how long its processes wait for what a daemon does at once: requests, and answers to a Cancel when
	// the caller has lost patience. Beyond it the daemon counts as gone; by then it is unreachable for other NICs too.
	DaemonPatience = 5 * time.Second

	// Refusals is how many refused NICs an engine remembers for its log: some hosts that were configured wrongly. An
	// attacker who makes addresses up pushes them out, and no more.
	Refusals = 64

	// LinksOfDaemon is how many links one daemon may start: more interfaces than hosts have. Each has a thread that polls.
	LinksOfDaemon = 16

	// Strangers is how many connections that have not attached a daemon has at a time, and StrangersPerProcess how many of
	// them one operating-system process may have: tools have one, for moments.
	Strangers           = 512
	StrangersPerProcess = 64

	// Callers is how many operating-system processes a daemon remembers that asked it for something: all that can be there.
	Callers = MaxProcesses + Strangers

	// RequestBurst is how many requests one operating-system process may make at once, and RequestsPerSecond in the long
	// run: some 50 µs each, they take a twentieth of a core then. Processes attach and allocate when they begin.
	RequestBurst      = 1024
	RequestsPerSecond = 1000

	// RequestsAtATime is how many requests of one operating-system process are served at a time: some wait, for other NICs.
	RequestsAtATime = 8

	// ThrownOutCost is how many requests it costs to be thrown out: after a dozen times one comes back ten times a second.
	// MostOwed bounds what a program can come to owe, so that its successor under its number waits five seconds at most.
	ThrownOutCost = 100
	MostOwed      = 5 * RequestsPerSecond

	// ThrownOut is how many programs a daemon remembers that it has thrown out, for an operator who looks for the cause of trouble.
	ThrownOut = 64

	// LogLines is how many lines of one kind about one process the daemon logs at once, and one a LogEvery in the long run.
	LogLines = 20
	LogEvery = time.Second
)
