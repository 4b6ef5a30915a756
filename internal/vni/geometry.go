package vni

import (
	"fmt"

	"github.com/weftnet/weft/internal/limits"
)

// Geometry holds the sizes of the parts of a segment (QNIX-61), and the place of its hot lines.
type Geometry struct {
	Commands    int // N: entries of the command queue; a multiple of 8, more than 8, at least 2M
	Contexts    int // M: send contexts, and as many receive contexts
	Descriptors int // K: descriptors of one context region
	PoolPages   int // Q: pages of the buffer pool; 0 if nothing is staged
	// Colour is 0 to Colours−1. Segments of one NIC have different colours, so that their queue
	// heads use different cache sets.
	Colour int
}

// Colours is the number of different places that a queue head may have in its page. Page-aligned
// heads all collide in one cache set. Sixteen places are enough to spread the heads of the
// processes that are active together.
const Colours = 16

// headBatch is how many commands the NIC reads between two updates of the head that the process
// sees (QNIX-29).
const headBatch = 8

// Bounds of a geometry. They keep sizes far from overflow; contexts must fit the 16 bits of a
// Command.
const (
	maxContexts    = 1 << 12
	maxCommands    = 1 << 16
	maxDescriptors = 1 << 10
	maxPoolPages   = 1 << 20
)

// DefaultGeometry returns the geometry of package limits. A process that shares its address space
// with its NIC (direct) needs no pool.
func DefaultGeometry(direct bool) Geometry {
	g := Geometry{Commands: limits.Commands, Contexts: limits.Contexts, Descriptors: limits.Descriptors,
		PoolPages: limits.PoolPages}
	if direct {
		g.PoolPages = 0
	}
	return g
}

// Validate returns an error if g is not valid.
func (g Geometry) Validate() error {
	switch {
	case g.Contexts < 1 || g.Contexts > maxContexts:
		return fmt.Errorf("vni: %d contexts: expected 1 to %d", g.Contexts, maxContexts)
	case g.Commands < 2*g.Contexts:
		return fmt.Errorf("vni: %d commands for %d contexts: expected %d or more, two for each", g.Commands,
			g.Contexts, 2*g.Contexts)
	case g.Commands <= headBatch || g.Commands%headBatch != 0 || g.Commands > maxCommands:
		// With 8 or fewer, the producer could wait for ever for a head that moves only every 8
		// commands (QNIX-A4).
		return fmt.Errorf("vni: %d commands: expected a multiple of %d above %d, at most %d", g.Commands,
			headBatch, headBatch, maxCommands)
	case g.Descriptors < 1 || g.Descriptors > maxDescriptors:
		return fmt.Errorf("vni: %d descriptors: expected 1 to %d", g.Descriptors, maxDescriptors)
	case g.PoolPages < 0 || g.PoolPages > maxPoolPages:
		return fmt.Errorf("vni: %d pool pages: expected 0 to %d", g.PoolPages, maxPoolPages)
	case g.Colour < 0 || g.Colour >= Colours:
		return fmt.Errorf("vni: colour %d: expected 0 to %d", g.Colour, Colours-1)
	}
	return nil
}

// Sizes returns the bytes that the two areas need, both in whole pages. They do not depend on the
// colour.
func (g Geometry) Sizes() (rw, ro int) {
	l := g.layout()
	return l.rwBytes, l.roBytes
}

// PoolRange returns where in rw the pages of the buffer pool are. They are not used before a
// process stages something.
func (g Geometry) PoolRange() (from, to int) {
	l := g.layout()
	return l.pool, l.pool + g.PoolPages*limits.PageBytes
}

// layout holds the offset of every component. It follows from the geometry. memory info repeats it
// (QNIX-27), so that the process can check that both halves compute the same.
type layout struct {
	// In rw.
	commands, sends, receives, regions, pool, status, sleeping, waiting, sendBells, receiveBells int
	// In ro.
	head, listening, published, events, sendDone, receiveDone int

	regionBytes      int // of one context region
	rwBytes, roBytes int
}

// infoBytes is the room of memory info and identity, at the start of ro.
const infoBytes = 1024

func (g Geometry) layout() layout {
	var l layout
	colour := g.Colour * lineBytes
	rest := Colours*lineBytes - colour
	l.regionBytes = max(limits.ShortMessage, g.Descriptors*descriptorBytes)

	l.commands = colour
	l.sends = align(l.commands+g.Commands*commandBytes, lineBytes)
	l.receives = l.sends + g.Contexts*contextBytes
	l.regions = l.receives + g.Contexts*contextBytes
	l.pool = align(l.regions+2*g.Contexts*l.regionBytes+rest, limits.PageBytes)
	l.status = l.pool + g.PoolPages*limits.PageBytes + colour
	l.sleeping = l.status + lineBytes
	l.waiting = l.sleeping + lineBytes
	l.sendBells = l.waiting + lineBytes
	l.receiveBells = align(l.sendBells+4*g.Contexts, lineBytes)
	l.rwBytes = align(align(l.receiveBells+4*g.Contexts, lineBytes)+rest, limits.PageBytes)

	l.head = infoBytes + colour
	l.listening = l.head + lineBytes
	l.published = l.listening + lineBytes
	l.events = l.published + lineBytes
	l.sendDone = l.events + Events*eventBytes
	l.receiveDone = l.sendDone + g.Contexts*completionBytes
	l.roBytes = align(l.receiveDone+g.Contexts*completionBytes+rest, limits.PageBytes)
	return l
}

func align(n, to int) int { return (n + to - 1) / to * to }
