package rel

import "github.com/weftnet/weft/internal/wire"

// Over a Reliable link there is nothing to remember about a sent segment, and nothing to find
// out about an arriving one: segments arrive in order, each once. So both ends have a short path
// for most of the packets there, and a segment of the command space needs no header of its own
// (wire.KindPlain). Any other frame takes the long path, which finds out the reason.

// Reliable reports whether the session's link is Reliable.
func (e *Endpoint) Reliable() bool { return e.live != nil && e.live.reliable }

// bareFrames reports whether segments of the command space leave as Plains if they leave
// AsFrame. They do so only on a Checked link: a tag at the end of a frame would cost more than
// the header.
func (s *session) bareFrames() bool { return s.reliable && s.packets.tagLen() == 0 }

// frameHead returns the length of the headers before a record that leaves AsFrame, in bytes.
func (s *session) frameHead(space wire.Space) int {
	if s.bareFrames() && space == wire.Command {
		return wire.OuterLen
	}
	return dataHead
}

// countDirect counts a segment of one record of n bytes, of which no copy is kept.
func (e *Endpoint) countDirect(n int) {
	st := &e.m.stats
	st.TotalSends++
	st.FragSends++
	st.SentBytes += uint64(n)
	st.SegmentsAcked++
	e.stats.Sends++
}
