package proc

import (
	"slices"

	"github.com/weftnet/weft/internal/limits"
)

// pool allocates runs of pages of the buffer pool, whose use QNIX-25 leaves to the process. It
// takes the first fitting run from a list of free runs. Operations are short and few are in
// flight, so the list is short and mostly has one run.
type pool struct {
	free []run // by first page; no two are adjacent
}

type run struct{ first, pages int }

// newPool returns a pool with the given number of pages, all free. Its list never grows, because
// n pages have at most (n+1)/2 free runs that are not adjacent.
func newPool(pages int) pool {
	p := pool{free: make([]run, 0, (pages+1)/2+1)}
	if pages > 0 {
		p.free = append(p.free, run{0, pages})
	}
	return p
}

// take finds a run of pages. If there is none, take fails and does not wait: receives may hold
// the pages while they wait for the caller's message.
func (p *pool) take(pages int) (first int, ok bool) {
	for i := range p.free {
		r := &p.free[i]
		if r.pages < pages {
			continue
		}
		first = r.first
		r.first += pages
		if r.pages -= pages; r.pages == 0 {
			p.free = slices.Delete(p.free, i, i+1)
		}
		return first, true
	}
	return 0, false
}

// fits reports whether take would find a run of this length.
func (p *pool) fits(pages int) bool {
	for _, r := range p.free {
		if r.pages >= pages {
			return true
		}
	}
	return false
}

// give takes a run back.
func (p *pool) give(first, pages int) {
	i, _ := slices.BinarySearchFunc(p.free, first, func(r run, first int) int { return r.first - first })
	before := i > 0 && p.free[i-1].first+p.free[i-1].pages == first
	after := i < len(p.free) && first+pages == p.free[i].first
	switch {
	case before && after:
		p.free[i-1].pages += pages + p.free[i].pages
		p.free = slices.Delete(p.free, i, i+1)
	case before:
		p.free[i-1].pages += pages
	case after:
		p.free[i].first, p.free[i].pages = first, p.free[i].pages+pages
	default:
		p.free = slices.Insert(p.free, i, run{first, pages})
	}
}

func pagesFor(n uint64) int { return int((n + limits.PageBytes - 1) / limits.PageBytes) }
