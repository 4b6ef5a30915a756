package sweep

import (
	"math/rand/v2"

	"github.com/weftnet/weft/internal/proc"
)

// From time to time a life closes its region, during the PUTs and GETs of others, and opens
// another. The memory of the closed region is filled with poison at once and kept. A region also
// ends with its life:
//
//	open ─┬─ Close ──────► only poison: a GET of poison, or another byte ──► used after its end
//	      └─ life ends ─┴► handle still used: a PUT or GET succeeds ───────► outlives its region

// poison fills the memory of a closed region. Noise and zeros differ from it over many bytes.
const poison = 0xa5

// closedRegion is a region that has ended.
type closedRegion struct {
	owner *life
	*region
	poisoned bool
}

// renew closes the life's region and opens another. It does nothing while an operation of the
// same life uses the region.
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

// bury remembers the region of a life. From now on, no operation may reach it.
func (w *world) bury(lf *life) {
	if lf.region != nil {
		w.closed = append(w.closed, closedRegion{lf, lf.region, !lf.ended})
		lf.region = nil
	}
}

// noiseOfRegion returns the id of the noise in a new region. Each region has different noise, so
// that bytes from another region are detected.
func (w *world) noiseOfRegion() uint64 {
	w.regions++
	return 1<<40 + w.regions
}

// checkClosed reports changes in the memory of closed regions: it must be as it was when the
// region ended.
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

// target is the region of a PUT or GET, and its owner. A closed region must refuse the operation.
type target struct {
	*region
	owner  *life
	closed bool
	wrong  bool // the key is not the region's key
}

// target draws a target: usually the region of a life, and sometimes a closed region, whose
// process may have ended.
func (w *world) target(rng *rand.Rand) target {
	if n := len(w.closed); n > 0 && rng.IntN(12) == 0 {
		c := w.closed[n-1-rng.IntN(min(n, 8))]
		return target{region: c.region, owner: c.owner, closed: true}
	}
	lf := w.lives[pick(rng, w.names...)]
	return target{region: lf.region, owner: lf, wrong: rng.IntN(16) == 0}
}

// handle returns the handle of a region, or a handle with a wrong key.
func (t *target) handle() proc.Handle {
	h := t.own.Handle()
	if t.wrong {
		h.Key ^= 1
	}
	return h
}

// hasEnded reports whether the region has been closed in the meantime.
func (t *target) hasEnded() bool { return t.owner.region != t.region }
