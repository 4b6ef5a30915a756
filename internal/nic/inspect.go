package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/rel"
)

// Transport returns what the reliability layer has counted. It is the engine's and is computed anew by the next call.
func (e *Engine) Transport() *rel.Stats { return e.rel.Stats() }

// Limits says which of its limits the engine does not keep, if any. It is cheap enough to be asked during a run.
func (e *Engine) Limits() error {
	for _, p := range e.procs {
		if p != nil && (p.staged < 0 || p.credited < 0 || p.staged+p.credited > e.cfg.StagingBytes) {
			return fmt.Errorf("%v has %d bytes of staging and %d of credit in a quota of %d", p, p.staged, p.credited, e.cfg.StagingBytes)
		}
	}
	return nil
}
