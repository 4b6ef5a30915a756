package stage

import (
	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

// Tree tells which process sends a file to which. The launcher is its root. The keepers of the
// job's hosts are below it.
type Tree struct {
	Root  weft.Name `json:"root"`  // of the launcher, which keeps its name when a job restarts
	App   string    `json:"app"`   // of the keepers, APP/1 and on
	Hosts int       `json:"hosts"` // number of keepers
	Fan   int       `json:"fan"`   // number of children of each process; 1 is a chain
}

// Launcher is the launcher's number, where a host would have its own.
const Launcher = -1

// NewTree returns the tree for a file and a number of hosts: a chain, or a binary tree if there
// are too many hosts for a chain.
func NewTree(launcher weft.Name, app string, hosts int, m *Manifest) Tree {
	t := Tree{Root: launcher, App: app, Hosts: hosts, Fan: 1}
	if hosts > min(limits.StagedChain, m.Chunks()/limits.StagedChainShare) {
		t.Fan = 2
	}
	return t
}

// Name returns the name of the keeper of a host, or of the launcher.
func (t Tree) Name(host int) weft.Name {
	if host == Launcher {
		return t.Root
	}
	return weft.Name{App: t.App, Index: uint32(host + 1)}
}

// Parent returns the host that sends the file to a host, or Launcher.
func (t Tree) Parent(host int) int { return host/max(t.Fan, 1) - 1 }

// has reports whether a process is a keeper of the tree.
func (t Tree) has(name weft.Name) bool {
	return name.App == t.App && name.Index >= 1 && name.Index <= uint32(t.Hosts)
}
