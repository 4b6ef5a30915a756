package weft

import (
	"context"

	"github.com/weftnet/weft/internal/proc"
)

// A Gate is what one goroutine of a process waits at until another opens it: each time it is opened it lets one through. It takes the place of
// a channel of capacity one between them, and works under the virtual time of package sim too. Unlike [Process.Wake] it wakes one goroutine
// and no other, so it suits a library with thousands of them.
type Gate struct{ g proc.Gate }

// NewGate returns a Gate that is not open.
func (p *Process) NewGate() *Gate { return &Gate{p.time.NewGate()} }

// Open has one [Gate.Wait] return, that of a goroutine that waits or else the next. A Gate that is opened again before that is
// opened once.
func (g *Gate) Open() { g.g.Open() }

// Wait waits until the Gate is open, and closes it behind itself. It returns ctx's error if ctx ends first. The end of the process does not end
// it.
func (g *Gate) Wait(ctx context.Context) error { return g.g.Wait(ctx) }
