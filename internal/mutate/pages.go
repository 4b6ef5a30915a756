package mutate

// PageDefect names a mistake in network memory. Its simulation is a test of package netmem, which
// must find each of them; "" is none.
type PageDefect string

// The defects of network memory, by the code that they are in.
const (
	PagesTwoLooks        PageDefect = "pages-two-looks"        // netmem: where a page is, and whether to wait for it, are looked up one after the other
	PagesAckedEarly      PageDefect = "pages-acked-early"      // netmem: a write is acknowledged by its first server
	PagesEpochIgnored    PageDefect = "pages-epoch-ignored"    // netmem: a server that has restarted still counts as having what it had
	PagesOldRead         PageDefect = "pages-old-read"         // netmem: a copy is read that is older than what was acknowledged
	PagesUndecided       PageDefect = "pages-undecided"        // netmem: what was read behind a failed write is not written anew
	PagesUnrepaired      PageDefect = "pages-unrepaired"       // netmem: pages of a dead server get no new copies
	PagesDoubtForgotten  PageDefect = "pages-doubt-forgotten"  // netmem: a damaged copy counts as whole
	PagesSurplusKept     PageDefect = "pages-surplus-kept"     // netmem: the servers keep more copies than there should be
	PagesAnswerLeak      PageDefect = "pages-answer-leak"      // netmem: the buffer of an answer that comes late is not freed
	PagesOlderOverwrites PageDefect = "pages-older-overwrites" // netmem: a server takes an older version than it has
	PagesEvicted         PageDefect = "pages-evicted"          // netmem: a server that is full makes room by forgetting a page
	PagesPinLeak         PageDefect = "pages-pin-leak"         // netmem: a page stays pinned when it has been sent
	PagesEpochKept       PageDefect = "pages-epoch-kept"       // netmem: a server has the epoch of its earlier life
	PagesPlaceOverrun    PageDefect = "pages-place-overrun"    // netmem: a server puts a page into a place that is too small for it
	PagesPlaceKept       PageDefect = "pages-place-kept"       // netmem: a client gets back the bytes of a page that it discards, and not those of its place
	PagesOutlive         PageDefect = "pages-outlive"          // netmem: what a client had stays when it has ended
	PagesShardsMixed     PageDefect = "pages-shards-mixed"     // netmem: shards of different versions make a page
	PagesShardBelieved   PageDefect = "pages-shard-believed"   // netmem: a server has the shard that it was sent, whatever it answers
	PagesPendingLost     PageDefect = "pages-pending-lost"     // netmem: what a failed write of shards has left undone is not kept here
	PagesHalvesMixed     PageDefect = "pages-halves-mixed"     // hsn: halves are put together whichever messages they are of
	PagesHalfLeak        PageDefect = "pages-half-leak"        // hsn: the buffer of a half that was given up is not freed
)

// PageDefects are all of them.
func PageDefects() []PageDefect {
	return []PageDefect{
		PagesTwoLooks, PagesAckedEarly, PagesEpochIgnored, PagesOldRead, PagesUndecided, PagesUnrepaired, PagesDoubtForgotten, PagesSurplusKept, PagesAnswerLeak,
		PagesOlderOverwrites, PagesEvicted, PagesPinLeak, PagesEpochKept, PagesPlaceOverrun, PagesPlaceKept, PagesOutlive,
		PagesShardsMixed, PagesShardBelieved, PagesPendingLost, PagesHalvesMixed, PagesHalfLeak,
	}
}
