package limits

import "time"

// Closing (package weft).
const (
	// LingerAtClose is how long a NIC that is being closed waits for the acknowledgement of its
	// last messages.
	LingerAtClose = UnreachableAfter

	// LingerStep is how often it checks.
	LingerStep = 100 * time.Microsecond
)

// Clients of a daemon (internal/daemon).
const (
	// DaemonPatience is how long processes wait for a daemon's immediate answers: to requests,
	// and to a Cancel when the caller has lost patience. Beyond it the daemon counts as gone; by
	// then it is unreachable for other NICs too.
	DaemonPatience = 5 * time.Second

	// Refusals is how many refused NICs an engine remembers for its log: room for some
	// misconfigured hosts. An attacker who invents addresses evicts them, and does no other harm.
	Refusals = 64

	// LinksOfDaemon is how many links one daemon may start: more than a host has interfaces. Each
	// has a polling thread.
	LinksOfDaemon = 16

	// Strangers is how many connections without an attached process a daemon has concurrently.
	// StrangersPerProcess is how many of them one operating-system process may have: a tool has
	// one, for moments.
	Strangers           = 512
	StrangersPerProcess = 64

	// Callers is how many operating-system processes with requests a daemon remembers: all that
	// can exist.
	Callers = MaxProcesses + Strangers

	// RequestBurst is how many requests one operating-system process may make at once, and
	// RequestsPerSecond its long-term rate. At some 50 µs each, these take a twentieth of a core.
	// Processes attach and allocate when they begin.
	RequestBurst      = 1024
	RequestsPerSecond = 1000

	// RequestsAtATime is how many requests of one operating-system process are served
	// concurrently: some wait for other NICs.
	RequestsAtATime = 8

	// ThrownOutCost is the price of being thrown out, in requests: after a dozen times, a process
	// comes back ten times a second. MostOwed bounds what a program can owe, so that its
	// successor with the same process number waits five seconds at most.
	ThrownOutCost = 100
	MostOwed      = 5 * RequestsPerSecond

	// ThrownOut is how many thrown-out programs a daemon remembers, for an operator who looks for
	// the cause of trouble.
	ThrownOut = 64

	// LogLines is how many log lines of one kind about one process the daemon writes at once. In
	// the long run it writes one per LogEvery.
	LogLines = 20
	LogEvery = time.Second
)
