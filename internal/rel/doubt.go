package rel

import "github.com/weftnet/weft/internal/limits"

// Doubt is what the losses of a session say of the way to a peer, beyond that it loses frames. The link driver is told
// once in a session, and may go about things in another way; to this module nothing changes.
type Doubt uint8

const (
	// DoubtBatches: more than a quarter of one of the first rounds was lost. If the driver sends frames in batches,
	// perhaps batches do not get through.
	DoubtBatches Doubt = 1 << iota

	// DoubtSize: a large frame was lost again and again, none as large has ever arrived, and small ones come and go.
	DoubtSize
)

// doubts is what a session has of that.
type doubts struct {
	told    Doubt
	largest int // bytes of capacity that the largest acknowledged segment took
}

// doubt tells the driver, once.
func (m *Module) doubt(s *session, what Doubt) {
	if m.cfg.Doubt != nil && s.doubts.told&what == 0 {
		s.doubts.told |= what
		m.cfg.Doubt(s.addr, what)
	}
}

// doubtSize looks whether a segment that is to be sent again is lost for its size: it was lost often, or, as those that are
// lost take turns, all were for several time-outs in a row. If nothing was heard since it was posted, the peer is gone
// rather than the path narrow.
func (m *Module) doubtSize(s *session, g *segment) {
	if max(g.sends, int(s.rtt.backoff)) >= limits.SizeDoubt && g.cost > limits.SureFrame+limits.FrameCost &&
		g.cost > s.doubts.largest && s.endpoint.heard > g.sentAt {
		m.doubt(s, DoubtSize)
	}
}
