// Package machine measures the parallel machine as its users see it. It makes hosts out of
// network namespaces, starts the weft binary there as NIC daemons, and runs programs with `weft
// run`.
//
//	deaths   what a dying rank, daemon, launcher or host leaves behind, and for how long
//	lines    whether lines of many ranks are lost, torn or out of order
//	unread   whether input that no rank reads takes memory
//	starts   how long programs take to start, by weft and by MPI launchers
package machine

import (
	"slices"
	"time"
)

// The kinds of measurement, as `weft bench` names them.
const (
	KindDeaths = "deaths"
	KindLines  = "lines"
	KindStarts = "starts"
	KindUnread = "unread"
)

// median returns the median of some durations, or 0 if there are none.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
