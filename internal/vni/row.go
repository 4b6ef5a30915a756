package vni

import "sync/atomic"

// A row is some words in shared memory that belong together. Its first word is a sequence, which
// is odd while the one writer changes the row. A reader that finds it odd, or changed afterwards,
// reads the row again.

// rowWriter writes the words of a row, one after the other. end must follow.
type rowWriter struct {
	row  []uint64
	rest []uint64 // the words that follow
	seq  uint64
}

func writeRow(row []uint64) rowWriter {
	return rowWriter{row: row, rest: row[1:], seq: row[0]} // no other program writes the sequence
}

// changed reports whether put has changed a word.
func (w *rowWriter) changed() bool { return w.seq%2 == 1 }

// put writes those of the next words that differ from before. The first such word makes the
// sequence odd.
func (w *rowWriter) put(values []uint64) {
	to := w.rest[:len(values)]
	w.rest = w.rest[len(values):]
	for i, v := range values {
		if to[i] == v {
			continue
		}
		if !w.changed() {
			w.seq++
			atomic.StoreUint64(&w.row[0], w.seq)
		}
		atomic.StoreUint64(&to[i], v)
	}
}

// end makes the row readable again.
func (w *rowWriter) end() {
	if w.changed() {
		atomic.StoreUint64(&w.row[0], w.seq+1)
	}
}

// isWritten reports whether a row has been written at least once.
func isWritten(row []uint64) bool { return atomic.LoadUint64(&row[0]) != 0 }

// readRow reads the words of a row after its sequence. It returns false if the row changed at each
// of several tries, which also happens if its writer ended while it wrote.
func readRow(row, words []uint64) bool {
	for range 1000 {
		before := atomic.LoadUint64(&row[0])
		for i := range words {
			words[i] = atomic.LoadUint64(&row[1+i])
		}
		if before%2 == 0 && atomic.LoadUint64(&row[0]) == before {
			return true
		}
	}
	return false
}
