package daemon

import (
	"errors"
	"log/slog"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/rel"
)

// outsiders remembers addresses whose frames do not belong to this fabric, or to this kind of
// link, and that the log has told, each once. Any host can send such frames from any address, so
// the log names at most limits.Refusals addresses in repeatRefusalAfter.
type outsiders struct {
	told map[outsider]bool
	full time.Time // when told became full
}

type outsider struct {
	addr link.Addr
	why  error
}

// outside reports whether why is a refusal that comes before a NIC can prove its id.
func outside(why error) bool {
	return errors.Is(why, rel.ErrFabric) || errors.Is(why, rel.ErrPlain) || errors.Is(why, rel.ErrSealed)
}

// outsideText returns the reason as text.
func outsideText(why error) string {
	switch {
	case errors.Is(why, rel.ErrFabric):
		return "mac1 does not verify; the fabric keys may differ"
	case errors.Is(why, rel.ErrPlain):
		return "its link is plain, and that of this NIC is sealed"
	}
	return "its link is sealed, and that of this NIC is plain"
}

// outsideCure returns the cure as text.
func outsideCure(why error) string {
	if errors.Is(why, rel.ErrFabric) {
		return "compare what weft fabric show --fingerprint prints on both hosts; " +
			"weft fabric join takes over the key of the other host"
	}
	return "the same value of plain in the configurations of both"
}

func (o *outsiders) tell(log *slog.Logger, r *nic.Refusal, now time.Time) {
	k := outsider{r.Addr, r.Why}
	if o.told[k] {
		return
	}
	if len(o.told) >= limits.Refusals {
		if now.Sub(o.full) < repeatRefusalAfter {
			return
		}
		clear(o.told)
	}
	if o.told == nil {
		o.told = make(map[outsider]bool)
	}
	o.told[k] = true
	log.Warn("frames of a NIC are refused: "+outsideText(r.Why), "address", r.Addr, "mend", outsideCure(r.Why))
	if len(o.told) == limits.Refusals {
		o.full = now
		log.Warn("such frames come from many addresses; the log tells of no more of them for a while",
			"for", repeatRefusalAfter)
	}
}

// has reports whether the log has named an address.
func (o *outsiders) has(addr link.Addr) bool {
	for k := range o.told {
		if k.addr == addr {
			return true
		}
	}
	return false
}
