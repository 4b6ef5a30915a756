// Package hostile misbehaves: it attaches to a NIC daemon as any process may, and then does everything to the memory, the
// file descriptors and the connection that it was given but what a process is meant to do.
//
//	      ┌──────────────── thrown out, refused, or bored ───────────────┐
//	      ▼                                                              │
//	connect ─► attach ─► rw, ro, kick, wake ─► an act, at full speed ────┘   until the time is over
//
// It is what `weft bench hostile` sets on a daemon, and what its tests do. It needs no privilege and uses none; a user who may
// end the daemon by a signal is not kept from it. Package ctl and the process half are left out on purpose: they would not
// do any of this.
package hostile

import "fmt"

// Tally counts what one hostile process has come to.
type Tally struct {
	Kind      string `json:"kind"`
	Attached  int64  `json:"attached"`   // how often it was let in
	Refused   int64  `json:"refused"`    // how often not
	ThrownOut int64  `json:"thrown_out"` // how often the NIC would have no more of it
	Acts      int64  `json:"acts"`       // single misdeeds
	Broken    string `json:"broken"`     // what it got that no process may get; empty: nothing
}

// kind is one way to misbehave.
type kind struct {
	name string
	what string
}

// kinds are all ways, in the order in which they are tried.
var kinds = []kind{
	{"scribble", "random words all over the writable memory"},
	{"garble", "commands, contexts, descriptors and doorbells that nearly make sense, changed while they are used"},
	{"descriptors", "its file descriptors: made to block, filled, duplicated, shut down, locked, watched"},
	{"memory", "its memory files: cut, grown, holed, sealed, reopened, mapped anew"},
	{"stop", "ordinary traffic, stopped and killed at any instruction by another process"},
	{"control", "the daemon's socket: garbage, floods of requests, answers not read, connections held"},
	{"flood", "sends to all processes, receives nothing, allocates, joins and rings without end"},
	{"rings", "rings and runs of messages: what it has read of them, their lengths and their memory changed while they are used, cancelled while full"},
	{"tables", "fills its receive table and has it searched in vain"},
}

// Kinds lists the names of all ways to misbehave.
func Kinds() []string {
	var l []string
	for _, k := range kinds {
		l = append(l, k.name)
	}
	return l
}

// What says what a kind does, in words.
func What(name string) string {
	for _, k := range kinds {
		if k.name == name {
			return k.what
		}
	}
	return ""
}

func unknown(name string) error {
	return fmt.Errorf("hostile: no kind is called %q; expected one of %v", name, Kinds())
}
