package sweep

import (
	"time"

	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/simulated"
)

// sealed seals the fabric of every second seed, with keys that change many times in a run.
func sealed(seed uint64, h simulated.Hooks) simulated.Hooks {
	if h.Sealed = seed%2 == 1; !h.Sealed {
		return h
	}
	h.Security = func(host int, s *rel.Security) {
		s.NoAES = seed%16 == 3 && host == 1
		s.Pace = rel.Pace{Phase: seal.Pace{Frames: 300, Time: 50 * time.Millisecond},
			RenewAfter: 200 * time.Millisecond}
	}
	return h
}
