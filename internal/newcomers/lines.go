package newcomers

import (
	"sync"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// Lines bounds the log lines that clients cause: limits.LogLines of one kind at once, and one every
// limits.LogEvery. The zero value is ready for use.
type Lines struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	Bucket
	missed int
}

// Print reports whether a line of a kind may be printed. missed is the number of lines of the kind
// that were suppressed since the last printed one. The caller chooses kinds from a fixed set, since
// Lines remembers each.
func (l *Lines) Print(of string, now time.Time) (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kinds == nil {
		l.kinds = make(map[string]*kind)
	}
	k := l.kinds[of]
	if k == nil {
		k = &kind{Bucket: Bucket{Burst: limits.LogLines, Every: limits.LogEvery}}
		l.kinds[of] = k
	}
	if !k.Take(now) {
		k.missed++
		return 0, false
	}
	missed, k.missed = k.missed, 0
	return missed, true
}
