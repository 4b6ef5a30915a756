package launch

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
)

// Exit is the end of one rank.
type Exit struct {
	Rank int `json:"rank"`
	PID  int `json:"pid"`
	// Status is that of a rank that exited; it is 0 if a signal ended the rank.
	Status int  `json:"exit"`
	Signal int  `json:"signal,omitempty"` // the signal that ended it, or 0
	Core   bool `json:"core,omitempty"`   // it left a core file
	// OOM tells which memory ran out, such as "cgroup limit 512 MiB".
	OOM string `json:"oom,omitempty"`
	// Cause is a phrase such as "exited with status 3"; empty for status 0.
	Cause       string        `json:"cause,omitempty"`
	User        time.Duration `json:"user_ns"`
	System      time.Duration `json:"system_ns"`
	MaxRSSBytes int64         `json:"max_rss_bytes"`
	Unkillable  bool          `json:"unkillable,omitempty"` // SIGKILL did not end it

	// Died is when the rank died, as noted by its host. A zero time means the time of the report.
	// Ranks of one host have different times, in the order of their deaths. It is not set in a
	// Result.
	Died time.Time `json:"-"`
}

// Failed reports whether the rank ended otherwise than with status 0.
func (e *Exit) Failed() bool {
	return e.Status != 0 || e.Signal != 0 || e.Cause != "" || e.Unkillable
}

// Code returns the rank's exit status as a shell would: 128 + signal for a signal. It returns
// StatusFailed for a rank whose own status is not known, such as one on a lost host.
func (e *Exit) Code() int {
	switch {
	case e.Signal != 0:
		return 128 + e.Signal
	case e.Status != 0:
		return e.Status & 0xff
	case e.Failed():
		return StatusFailed
	}
	return 0
}

// phrase returns what happened to the rank: "exited with status 3".
func (e *Exit) phrase() string {
	switch {
	case e.Cause != "":
		return e.Cause
	case e.Signal != 0:
		return "killed by " + signalName(e.Signal)
	case e.Unkillable:
		return "SIGKILL did not end it"
	}
	return fmt.Sprintf("exited with status %d", e.Status)
}

// signalName returns a name such as SIGKILL, or "signal 40" for a signal without a name.
func signalName(s int) string {
	if name := unix.SignalName(syscall.Signal(s)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", s)
}

// Survivor is a process that SIGKILL did not end in time.
type Survivor struct {
	Rank int    `json:"rank"` // -1 if the process is not a rank itself
	PID  int    `json:"pid"`
	Name string `json:"name"` // of the program, as the kernel shows it
	Why  string `json:"why"`  // its state, such as "uninterruptible in nfs_wait_bit_killable"
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
	Ranks     []RankEnd      // by rank; empty if no rank started
	Status    int            // exit status of the whole job
	Cause     string         // sentence that explains a Status other than 0
	Refusals  []HostRefusal  // of hosts that refused, or could not start their ranks
	Restarts  int            // how often the job began again
	Survivors []HostSurvivor // processes that even SIGKILL did not end
	Unknown   []string       // hosts whose end the launcher does not know, each with the reason
	Strangers int            // messages and datagrams from outside the job
}

// NoteKind is the kind of a Note.
type NoteKind uint8

// The kinds of notes.
const (
	NoteStarted  NoteKind = iota // all hosts have taken their start
	NoteRank                     // Rank has ended: Exit; for a failure, Text is the cause
	NoteStopped                  // Rank was stopped by a signal
	NoteResumed                  // Rank was continued
	NoteHostLost                 // Host is lost; Text is the reason
	// A failure ends the job; Text is its cause. A later report may name an earlier failure.
	NoteFailure
	NoteRestart // the job begins again; Text is a sentence
	NoteTimeout // the job has reached its timeout, and is being ended
)

// Note is an event of a running job.
type Note struct {
	Kind NoteKind
	Host string
	Rank int
	Exit *Exit
	Text string

	Known bool // of NoteRank: the keeper has reported the end
}
