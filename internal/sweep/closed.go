package sweep

import (
	"math/rand/v2"

	"github.com/weftnet/weft/internal/proc"
)

// A life closes its region now and then, in the middle of the PUTs and GETs of others, and opens another. What was the region's memory
// is poisoned at once and kept. A region ends with its life, too:
//
//	open ──┬─ Close ──────► all of it is poison: a GET that brings poison, a byte that is none ──► the memory was used after its end
//	       └─ end of life ─┴► its handle is used on: a PUT or GET that succeeds ──────────────────► a handle outlives its region

// poison is what fills the memory of a closed region. Neither noise nor zeros look like it over many bytes.
const poison = 0xa5

// closedRegion is a region whose end has come.
type closedRegion struct {
	owner *life
	*region
	poisoned bool
}

// renew closes the life's region and opens another. It does nothing while an operation of the life itself uses the region.
func (lf *life) renew() error {
	if err := lf.region.own.Close(); isNICGone(err) {
		return errEnded
	} else if err != nil {
		return err
	}
	lf.w.totals.Regions++
	for i := range lf.region.mem {
		lf.region.mem[i] = poison
	}
	lf.w.bury(lf)
	r, err := lf.half.Alloc(readBytes + writeBytes)
	if err != nil {
		return err
	}
	lf.region = newRegion(r, r.Bytes(), lf.w.noiseOfRegion())
	return nil
}

// bury remembers the region of a life, which no operation may reach from now on.
func (w *world) bury(lf *life) {
	if lf.region != nil {
		w.closed = append(w.closed, closedRegion{lf, lf.region, !lf.ended})
		lf.region = nil
	}
}

// noiseOfRegion is the id of the noise in one more region. Each has its own, so that bytes of another are found out.
func (w *world) noiseOfRegion() uint64 {
	w.regions++
	return 1<<40 + w.regions
}

// checkClosed says what is wrong with the memory of closed regions: it must be as their ends have left it.
func (w *world) checkClosed() {
	for _, c := range w.closed {
		for i, b := range c.mem {
			if c.poisoned && b != poison {
				w.l.violate("byte %d of a region of %s was written after the region's end", i, c.owner.name)
				break
			}
		}
	}
}

// target is a region that a PUT or GET goes to, and its owner. One that is closed must refuse it.
type target struct {
	*region
	owner  *life
	closed bool
	wrong  bool // the key is not the region's
}

// target draws one: mostly the region of a life, at times one that was closed, which may be of a process that has ended.
func (w *world) target(rng *rand.Rand) target {
	if n := len(w.closed); n > 0 && rng.IntN(12) == 0 {
		c := w.closed[n-1-rng.IntN(min(n, 8))]
		return target{region: c.region, owner: c.owner, closed: true}
	}
	lf := w.lives[pick(rng, w.names...)]
	return target{region: lf.region, owner: lf, wrong: rng.IntN(16) == 0}
}

// handle is the handle of a region, or one with a key that is not the region's.
func (t *target) handle() proc.Handle {
	h := t.own.Handle()
	if t.wrong {
		h.Key ^= 1
	}
	return h
}

// hasEnded reports whether the region was closed meanwhile.
func (t *target) hasEnded() bool { return t.owner.region != t.region }
