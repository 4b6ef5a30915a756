// Package metrics serves the counters of a daemon's NICs to Prometheus, answers health checks, and
// makes profiles.
//
//	                   ┌─ guard ─┐ 403, counted
//	visitor ─ HTTP ──► │ socket  │ ──► /metrics ──► collector ──► counters page (memory)
//	                   │ token   │                          └───► last known peers (memory)
//	                   │ host    │ ──► /healthz, /readyz ──► health ──► an empty job of each loop
//	                   └─────────┘ ──► /debug/pprof/
//
// A scrape reads memory that the NIC writes anyway, and so does not disturb the engine. A health
// check costs each loop an empty job, at most once in limits.HealthEvery.
//
// The metrics come from tables: vni.Descriptions for counters, families for counters that are
// one metric with a label, peerMetrics for peers. A new row is a new metric.
package metrics

import (
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// NIC is a NIC of the daemon, as this package reads it. The functions are called from any
// goroutine, and may be called until the Server is closed.
type NIC struct {
	Link    string // the name of its link: a label of each of its metrics
	ID      string
	Address string
	Guard   string // sealed or plain
	Version string
	Commit  string
	Started time.Time
	Page    vni.CounterPage

	// MostProcesses bounds the attached processes.
	MostProcesses int

	// Peers returns the last known state of the other NICs. It must not wait for the engine.
	Peers func() []Peer

	// Job returns when the loop of the NIC has run an empty job.
	Job func()

	// LinkUp returns the reason why the link cannot carry frames, or nil. It is called by one
	// goroutine at a time.
	LinkUp func() error
}

// Daemon is what a Server reads.
type Daemon struct {
	NICs []NIC

	// Accepts returns the reason why the daemon does not accept processes, or nil.
	Accepts func() error
}
