package wire

// Seq is a segment's sequence number. It counts segments of one space of one endpoint and wraps.
// Two numbers less than 2³¹ apart compare in their order of sending, and a window of 4096 keeps
// them that close (USNIC-40, USNIC-41). Numbers exactly 2³¹ apart have no order: each is Before
// the other. The notes' 16 bits would do for the window. With 32 bits, a long-delayed duplicate
// on a fast link can still be recognised.
type Seq uint32

// Add returns the number n segments after s.
func (s Seq) Add(n int) Seq { return s + Seq(int32(n)) }

// Sub returns how many segments s lies after t. It is negative if s lies before t.
func (s Seq) Sub(t Seq) int { return int(int32(s - t)) }

// Before reports whether s was sent earlier than t.
func (s Seq) Before(t Seq) bool { return int32(s-t) < 0 }
