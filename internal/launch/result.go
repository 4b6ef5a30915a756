package launch

import (
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
)

// Exit is the end of one rank.
type Exit struct {
	Rank        int           `json:"rank"`
	PID         int           `json:"pid"`
	Status      int           `json:"exit"`             // of a rank that exited; 0 if a signal ended it
	Signal      int           `json:"signal,omitempty"` // that ended it, or 0
	Core        bool          `json:"core,omitempty"`   // it left a core file
	OOM         string        `json:"oom,omitempty"`    // why the kernel had no memory for it, such as "cgroup limit 512 MiB"
	Cause       string        `json:"cause,omitempty"`  // of an end that the process did not choose, such as a lost host
	User        time.Duration `json:"user_ns"`
	System      time.Duration `json:"system_ns"`
	MaxRSSBytes int64         `json:"max_rss_bytes"`
	Unkillable  bool          `json:"unkillable,omitempty"` // KILL has not ended it
}

// Failed reports whether the rank ended with something else than status 0.
func (e *Exit) Failed() bool {
	return e.Status != 0 || e.Signal != 0 || e.Cause != "" || e.Unkillable
}

// Code returns the rank's exit status as a shell would: 128 + signal for a signal.
func (e *Exit) Code() int {
	switch {
	case e.Signal != 0:
		return 128 + e.Signal
	case e.Status != 0:
		return e.Status & 0xff
	case e.Failed():
		return 1
	}
	return 0
}

// Survivor is a process that KILL did not end.
type Survivor struct {
	Rank int    `json:"rank"` // -1: no rank is known for it
	PID  int    `json:"pid"`
	Why  string `json:"why"` // its state, such as "in an uninterruptible wait"
}

// RankEnd is the end of a rank on a host.
type RankEnd struct {
	Exit
	Node  string `json:"node"`
	Known bool   `json:"known"` // the keeper has reported the end
}

// HostRefusal is a refusal with the name of its host.
type HostRefusal struct {
	Host string
	ctl.Refusal
}

// HostSurvivor is a survivor with the name of its host.
type HostSurvivor struct {
	Host string
	Survivor
}

// Result is the end of a job.
type Result struct {
	Ranks     []RankEnd // by rank; empty if no rank started
	Status    int       // exit status of the whole job
	Cause     string    // sentence that explains a Status other than 0
	Refusals  []HostRefusal
	Restarts  int            // how often the job began again
	Survivors []HostSurvivor // processes that nothing could end
	Unknown   []string       // hosts whose end the launcher does not know, each with the reason
}

// NoteKind is the kind of a Note.
type NoteKind uint8

// The kinds of notes.
const (
	NoteStarted  NoteKind = iota // all hosts have been told to start
	NoteRank                     // Rank has ended: Exit
	NoteStopped                  // Rank was stopped by a signal
	NoteResumed                  // Rank was continued
	NoteHostLost                 // Host is lost: Text
	NoteFailure                  // the first failure: Text
	NoteRestart                  // the job begins again: Text
	NoteTimeout                  // the job has reached its timeout, and will be ended
)

// Note is an event of a running job.
type Note struct {
	Kind NoteKind
	Host string
	Rank int
	Exit *Exit
	Text string
}

// Keeper is a keeper of a running job, for tools that ask a job's hosts.
type Keeper struct {
	Host string
	NIC  weft.NICID
}
