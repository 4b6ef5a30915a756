package mutate

// PageDefect names a mistake in network memory. The simulation in the tests of package netmem
// must find each of them. The empty string is no defect.
type PageDefect string

// The defects of network memory, each with its part of the code.
const (
	// netmem: a page's place, and whether to wait, are two separate lookups
	PagesTwoLooks PageDefect = "pages-two-looks"
	// netmem: a write is acknowledged by its first server
	PagesAckedEarly PageDefect = "pages-acked-early"
	// netmem: a restarted server still counts as a holder of its old pages
	PagesEpochIgnored PageDefect = "pages-epoch-ignored"
	// netmem: a read returns a copy older than the acknowledged one
	PagesOldRead PageDefect = "pages-old-read"
	// netmem: the page that is read after a failed write is not rewritten
	PagesUndecided PageDefect = "pages-undecided"
	// netmem: pages of a dead server get no new copies
	PagesUnrepaired PageDefect = "pages-unrepaired"
	// netmem: a damaged copy counts as whole
	PagesDoubtForgotten PageDefect = "pages-doubt-forgotten"
	// netmem: the servers keep too many copies
	PagesSurplusKept PageDefect = "pages-surplus-kept"
	// netmem: the buffer of a late answer is not freed
	PagesAnswerLeak PageDefect = "pages-answer-leak"
	// netmem: a server accepts an older version than its own
	PagesOlderOverwrites PageDefect = "pages-older-overwrites"
	// netmem: a full server forgets a page to make room
	PagesEvicted PageDefect = "pages-evicted"
	// netmem: a page stays pinned after it was sent
	PagesPinLeak PageDefect = "pages-pin-leak"
	// netmem: a server keeps the epoch of its earlier life
	PagesEpochKept PageDefect = "pages-epoch-kept"
	// netmem: a server puts a page into a place that is too small
	PagesPlaceOverrun PageDefect = "pages-place-overrun"
	// netmem: a discarded page returns its own bytes, not those of its place
	PagesPlaceKept PageDefect = "pages-place-kept"
	// netmem: the pages of a client stay after its end
	PagesOutlive PageDefect = "pages-outlive"
	// netmem: shards of different versions form a page
	PagesShardsMixed PageDefect = "pages-shards-mixed"
	// netmem: a server counts as holder of a sent shard, whatever it answers
	PagesShardBelieved PageDefect = "pages-shard-believed"
	// netmem: the unfinished rest of a failed write of shards is not kept
	PagesPendingLost PageDefect = "pages-pending-lost"
	// hsn: halves of different messages are joined
	PagesHalvesMixed PageDefect = "pages-halves-mixed"
	// hsn: the buffer of an abandoned half is not freed
	PagesHalfLeak PageDefect = "pages-half-leak"
)

// PageDefects returns all of them.
func PageDefects() []PageDefect {
	return []PageDefect{
		PagesTwoLooks, PagesAckedEarly, PagesEpochIgnored, PagesOldRead, PagesUndecided, PagesUnrepaired,
		PagesDoubtForgotten, PagesSurplusKept, PagesAnswerLeak,
		PagesOlderOverwrites, PagesEvicted, PagesPinLeak, PagesEpochKept, PagesPlaceOverrun, PagesPlaceKept,
		PagesOutlive,
		PagesShardsMixed, PagesShardBelieved, PagesPendingLost, PagesHalvesMixed, PagesHalfLeak,
	}
}
