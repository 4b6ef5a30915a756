package rel

import "github.com/weftnet/weft/internal/wire"

// Over a Reliable link there is nothing to remember of a segment that was sent, and nothing to find out about one that
// comes: they come in order, each once. So both ends have a short way for what is most of the packets there, and a segment of
// the command space needs no header of its own (wire.KindPlain). What is not as it should be goes the long way, which says why.

// Reliable reports whether the session's link is.
func (e *Endpoint) Reliable() bool { return e.live != nil && e.live.reliable }

// bareFrames reports whether segments of the command space leave as Plains, when they leave AsFrame. On a Checked link alone: a tag at
// the end of a frame would cost more than the header.
func (s *session) bareFrames() bool { return s.reliable && s.packets.tagLen() == 0 }

// frameHead is what stands before a record that leaves AsFrame.
func (s *session) frameHead(space wire.Space) int {
	if s.bareFrames() && space == wire.Command {
		return wire.OuterLen
	}
	return dataHead
}

// countDirect counts a segment of one record of n bytes, of which nothing is kept.
func (e *Endpoint) countDirect(n int) {
	st := &e.m.stats
	st.TotalSends++
	st.FragSends++
	st.SentBytes += uint64(n)
	st.SegmentsAcked++
}
