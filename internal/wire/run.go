package wire

import "encoding/binary"

// RunLen is the length of a Run's header, in bytes.
const RunLen = RecordLen + EnvelopeLen + 2

// MaxRun is the largest number of messages in a Run: more than one NIC's credit for a process can
// cover.
const MaxRun = 4096

// RunSize returns the length of a Run with this number of messages, and bytes of payload in all.
func RunSize(messages, bytes int) int { return RunLen + 2*messages + bytes }

// PutRun writes a Run of at least two messages into b[:RunSize]. They go from one process to one
// other with one tag, have consecutive numbers, and want no answer. The envelope has the number
// of the first.
//
//	 4  envelope  28   without flags and token
//	32  count     2    of the messages
//	34  lengths   2    of each
//	    bytes          of the messages, concatenated
func PutRun(b []byte, e *Envelope, messages [][]byte) {
	if len(messages) < 2 || len(messages) > MaxRun {
		panic("wire: a run of fewer than two messages, or of more than MaxRun")
	}
	e.put(b[RecordLen:])
	binary.LittleEndian.PutUint16(b[RecordLen+EnvelopeLen:], uint16(len(messages)))
	lengths, data := b[RunLen:RunLen+2*len(messages)], b[RunLen+2*len(messages):]
	n := 0
	for _, m := range messages {
		binary.LittleEndian.PutUint16(lengths, uint16(len(m)))
		lengths = lengths[2:]
		n += copy(data[n:], m)
	}
	putRecord(b, TypeRun, 0, RunSize(len(messages), n))
}

// PutPackedRun is PutRun for messages that are already laid out as in a Run.
func PutPackedRun(b []byte, e *Envelope, lengths Lengths, data []byte) {
	if n := lengths.Count(); n < 2 || n > MaxRun {
		panic("wire: a run of fewer than two messages, or of more than MaxRun")
	}
	e.put(b[RecordLen:])
	binary.LittleEndian.PutUint16(b[RecordLen+EnvelopeLen:], uint16(lengths.Count()))
	copy(b[RunLen:], lengths)
	copy(b[RunLen+len(lengths):], data)
	putRecord(b, TypeRun, 0, RunSize(lengths.Count(), len(data)))
}

// Lengths holds the lengths of the messages of a Run.
type Lengths []byte

// Count returns the number of messages.
func (l Lengths) Count() int { return len(l) / 2 }

// At returns the length of message i, in bytes.
func (l Lengths) At(i int) int { return int(binary.LittleEndian.Uint16(l[2*i:])) }

// Run reads a Run: the envelope of its first message, the lengths of all messages, and their
// bytes.
func (r Record) Run() (first Envelope, lengths Lengths, data []byte) {
	at := RunLen + 2*r.runCount()
	return parseEnvelope(0, r[RecordLen:]), Lengths(r[RunLen:at]), r[at:]
}

func (r Record) runCount() int { return int(binary.LittleEndian.Uint16(r[RecordLen+EnvelopeLen:])) }

// runOK reports whether a Run has an allowed number of messages, no token, and exactly the bytes
// that its lengths state.
func runOK(r Record) bool {
	n := r.runCount()
	if n < 2 || n > MaxRun || len(r) < RunLen+2*n || binary.LittleEndian.Uint32(r[RecordLen+16:]) != 0 {
		return false
	}
	sum := RunLen + 2*n
	for l := r[RunLen:sum]; len(l) >= 2; l = l[2:] {
		sum += int(binary.LittleEndian.Uint16(l))
	}
	return sum == len(r)
}
