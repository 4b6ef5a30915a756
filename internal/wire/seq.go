package wire

// Seq is a segment's sequence number. It counts segments of one space of one endpoint and wraps; two numbers less than
// 2³¹ apart compare as their order of sending, which a window of 4096 keeps true (USNIC-40, USNIC-41).
// Numbers exactly 2³¹ apart have no order: each is Before the other.
// The notes' 16 bits would do for the window, but 32 let a long-delayed duplicate of a fast link still be told apart.
type Seq uint32

// Add returns the number n segments after s.
func (s Seq) Add(n int) Seq { return s + Seq(int32(n)) }

// Sub returns how many segments s lies after t; negative when it lies before.
func (s Seq) Sub(t Seq) int { return int(int32(s - t)) }

// Before reports whether s was sent earlier than t.
func (s Seq) Before(t Seq) bool { return int32(s-t) < 0 }
