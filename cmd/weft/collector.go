package main

import (
	"runtime/debug"
	"time"
)

const (
	startPercent = 400         // the first collection comes at 16 MiB in place of 4 MiB
	startLasts   = time.Second // from then on, the usual percentage holds
)

// collectLater defers the collection of garbage while a command starts. A short job ends before the first collection,
// which would take a processor from its ranks.
func collectLater() {
	usual := debug.SetGCPercent(startPercent)
	if usual < 0 || usual >= startPercent { // GOGC
		debug.SetGCPercent(usual)
		return
	}
	time.AfterFunc(startLasts, func() { debug.SetGCPercent(usual) })
}
