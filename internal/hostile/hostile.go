// Package hostile misbehaves. It attaches to a NIC daemon like any process. Then it uses its
// memory, file descriptors and connection in every way that a correct process does not.
//
//	      ┌──────────────── expelled, refused, or bored ─────────────────┐
//	      ▼                                                              │
//	connect ─► attach ─► rw, ro, kick, wake ─► an act, at full speed ────┘  until the time is over
//
// `weft bench hostile` runs it against a daemon, and so do the daemon's tests. It needs no
// privilege and uses none. Nothing keeps a user with the right to signal the daemon from ending
// it. The package uses neither package ctl nor the process half, because these would not do any
// of this.
package hostile

import "fmt"

// Tally counts the results of one hostile process.
type Tally struct {
	Kind      string `json:"kind"`
	Attached  int64  `json:"attached"`   // number of successful attaches
	Refused   int64  `json:"refused"`    // number of refused attaches
	ThrownOut int64  `json:"thrown_out"` // number of times that the NIC expelled it
	Acts      int64  `json:"acts"`       // single misdeeds
	// Broken describes something that it got and no process may get. It is empty if there was
	// nothing.
	Broken string `json:"broken"`
}

// kind is one way to misbehave.
type kind struct {
	name string
	what string
}

// kinds lists all ways to misbehave, in the order in which they are tried.
var kinds = []kind{
	{"scribble", "random words all over the writable memory"},
	{"garble", "nearly valid commands, contexts, descriptors and doorbells, changed while in use"},
	{"descriptors", "its file descriptors: made to block, filled, duplicated, shut down, locked, watched"},
	{"memory", "its memory files: cut, grown, holed, sealed, reopened, mapped anew"},
	{"stop", "ordinary traffic, stopped and killed at any instruction by another process"},
	{"control", "the daemon's socket: garbage, floods of requests, answers not read, connections held"},
	{"flood", "sends to all processes, receives nothing, allocates, joins and rings without end"},
	{"rings",
		"rings and runs of messages: changes read counts, lengths and memory in use, and cancels full rings"},
	{"tables", "fills its receive table, and makes the NIC search all of it"},
}

// Kinds returns the names of all ways to misbehave.
func Kinds() []string {
	var l []string
	for _, k := range kinds {
		l = append(l, k.name)
	}
	return l
}

// What describes a kind in words.
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
