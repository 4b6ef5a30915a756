package launch

import (
	"context"
	"syscall"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/mutate"
)

// Set holds the processes of a job on one host: *ranks.Set, or a fake in package sim. Its methods
// may be called concurrently, and before all ranks have started. Only End and Wait may wait.
type Set interface {
	Feed(rank int, b []byte) error // queues input of a rank
	CloseStdin(rank int)           // ends the input of a rank, after the fed input
	Signal(sig syscall.Signal)     // sends a signal to the process group of every rank

	// End sends TERM and CONT, waits at most the grace, and then kills everything. It names the
	// processes that it could not kill, and does not wait for them.
	End(grace time.Duration) []Survivor

	Wait() // waits until every rank has ended and its output is delivered
	Inspect() []ctl.RankInfo
}

// Callbacks are the calls by which a Set reports to its keeper. A Set may call them from several
// goroutines, and calls them one after the other for one rank and stream. Output waits while the
// launcher is slow. The last Output of a rank comes before its Ended.
type Callbacks struct {
	Output func(rank, stream int, lines []byte) error
	Want   func(rank int) // the rank has read all its input
	State  func(rank int, stopped bool)
	Ended  func(Exit)
	KVS    KVS // key-value space of the job; nil unless Start.PMI
}

// KVS is the key-value space of a job, as the PMI-1 server of one host uses it.
type KVS interface {
	// Put stores a value. Other hosts see it after the next Barrier.
	Put(key, value string) error

	// Get returns a value that a rank of this host has put, or that a Barrier has brought.
	Get(key string) (value string, ok bool)

	// Barrier waits until every host of the job has called it. The server calls it once all its
	// ranks have entered the barrier.
	Barrier(ctx context.Context) error

	// Abort ends the job with a rank's status and message.
	Abort(rank, status int, message string)
}

// Lifeline is a keeper's connection to its daemon: *ctl.KeeperLink, or a fake in package sim.
type Lifeline interface {
	// Told waits for the daemon's next message. An error means that the daemon is gone. Told need
	// not obey ctx: a keeper that ends does not wait for it.
	Told(ctx context.Context) (*ctl.ToKeeper, error)

	Answer(*ctl.FromKeeper) error
}

// KeepOptions is what a keeper needs besides its reservation.
type KeepOptions struct {
	// Defect is a mistake that the simulation must find; it is empty except in tests.
	Defect mutate.LaunchDefect

	// Start starts the ranks: all of them, or none and an error.
	Start func(Start, Callbacks) (Set, error)

	// Notices opens the datagrams to a port of the launcher's host. They carry news without the
	// NICs. Notices returns nil if there is no such path. It may be nil.
	Notices func(port uint16) (Datagrams, error)

	// Stage brings staged content to this host before Start. hosts is the number of the job's
	// hosts, whose keepers bring the content concurrently. An error is a refusal. Stage may be
	// nil.
	Stage func(ctx context.Context, p *weft.Process, manifest []byte, hosts int) error
}

// Keep is the keeper of a job's ranks on one host, from its reservation to the end of its ranks.
// The process p has the name KeeperName(r). Keep returns nil if the launcher has acknowledged the
// end of all ranks, and otherwise the reason for their end. In both cases no rank is left, except
// those that SIGKILL did not end.
//
// Keep ends the ranks if the launcher or the daemon is gone, if either of them asks for it, if ctx
// ends, or if the start does not come within StartWithin. After the last rank has ended, Keep waits
// for the launcher to take all output, as a pipe does: the launcher's terminal may be stopped.
func Keep(ctx context.Context, p *weft.Process, r *ctl.Reserve, o KeepOptions, daemon Lifeline) error {
	k := newKeeper(p, r, o, daemon)
	defer k.cancel()
	k.rt.Go(k.hear)
	k.rt.Go(k.watch)
	k.rt.Go(k.obeyDaemon)
	k.rt.Go(func() { k.follow(ctx) })
	return k.run()
}
