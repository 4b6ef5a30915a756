package rel

// replayWindow remembers which packet counters of a session have been taken. It is a ring of
// words. The word of the highest counter is the newest, and a counter so old that its word has
// been reused counts as taken:
//
//	          ◄──── at least 1,984 counters ────►
//	too old ──┤ 1 1 0 1 1 1 1 1 … 1 1 1 0 1 1 1 ├── new
//	                                          ▲ top
//
// A counter is taken only after the tag of its frame was found good, so that a forged one moves
// nothing (decision 2).
type replayWindow struct {
	top   uint64
	words [replayWords]uint64
}

const replayWords = 32

// fresh reports whether counter c has not been taken and is not too old to be known.
func (w *replayWindow) fresh(c uint64) bool {
	if c > w.top {
		return true
	}
	if w.top/64-c/64 >= replayWords {
		return false
	}
	return w.words[c/64%replayWords]>>(c%64)&1 == 0
}

// take marks counter c, which was fresh. Usually it follows the last one, in the same word.
func (w *replayWindow) take(c uint64) {
	if c/64 > w.top/64 {
		w.advance(c)
	}
	w.top = max(w.top, c)
	w.words[c/64%replayWords] |= 1 << (c % 64)
}

// advance clears the words that will stand for other counters, up to that of c.
func (w *replayWindow) advance(c uint64) {
	for i, n := w.top/64+1, uint64(0); i <= c/64 && n < replayWords; i, n = i+1, n+1 {
		w.words[i%replayWords] = 0
	}
}
