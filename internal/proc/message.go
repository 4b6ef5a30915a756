package proc

import "github.com/weftnet/weft/internal/vni"

// Dest names a process: by name, or by exact address if NIC is not 0. As the source of a receive,
// the zero Dest means any process.
type Dest struct {
	Name vni.Name
	NIC  uint64
	Slot uint16
	Gen  uint32 // with a name: 0 means any process with the name, else exactly this one
}

// To returns the Dest of the process with a name.
func To(n vni.Name) Dest { return Dest{Name: n} }

// Match says which tags a receive accepts.
type Match struct {
	Tag uint64
	Any bool // all tags
}

// AnyTag matches every tag (QNIX-20).
var AnyTag = Match{Any: true}

// Tagged matches one tag.
func Tagged(tag uint64) Match { return Match{Tag: tag} }

// Message describes a received message.
type Message struct {
	From  vni.Name // zero if this NIC does not know the sender's name
	NIC   uint64
	Slot  uint16
	Gen   uint32
	Tag   uint64
	Len   int    // bytes in the buffer
	Full  uint64 // bytes of the message; more than Len if it was truncated
	Token Token
}

// Token identifies a call to the process that answers it.
//
//	63              32 31           0
//	receipt            token         token: from the sender, see below
//
// The receipt numbers the calls that the process has received. It is 0 in a message that was only
// found by a probe.
type Token uint64

// sent returns the token as the sender knows it.
func (t Token) sent() uint32 { return uint32(t) }

// receipt returns the number of the call among the received calls.
func (t Token) receipt() uint32 { return uint32(t >> 32) }

// IsCall reports whether the token belongs to a call. Other messages are not answered.
func (t Token) IsCall() bool { return t&callBit != 0 }

// Source returns the exact address of the sender.
func (m *Message) Source() Dest { return Dest{Name: m.From, NIC: m.NIC, Slot: m.Slot, Gen: m.Gen} }

// IsCall reports whether the sender awaits a Reply.
func (m *Message) IsCall() bool { return m.Token.IsCall() }

func (m *Message) set(c *vni.Completion) {
	m.From, m.NIC, m.Slot, m.Gen = c.From, c.NIC, c.Slot, c.Gen
	m.Tag, m.Len, m.Full, m.Token = c.Tag, int(c.Len), max(c.Full, c.Len), Token(c.Token)
}

// A token is a process's number for a send. It is unique among the sends that may still be
// answered:
//
//	31    30           16 15            0
//	call  use count        context         the count starts at 1, so no token is 0
//
// The counts of a process start at their own value, far from the counts of earlier processes in
// its slot. A late answer to such a process names a send only by slot and token, and must not end
// a send of this process.
//
// The token itself marks a call, because an envelope has no flag for it. An answer to another
// message would find no waiter.
const (
	callBit   = 1 << 31
	countBits = 15

	// countStep is the distance between the first counts of consecutive generations. It is the
	// golden section of the range of counts, so the counts of many consecutive generations stay
	// apart.
	countStep = 20251
)

// firstCount returns the first count of a generation.
func firstCount(gen uint32) uint16 { return uint16(gen * countStep & (1<<countBits - 1)) }

// straightContexts is the first context number in tokens of calls by the straight way. Such calls
// have no context, and no process has so many.
const straightContexts = 0xf000

// straightToken returns the token of a call by the straight way.
func (p *Process) straightToken() uint32 {
	n := p.straightCalls.Add(1)
	return callBit | n&(1<<countBits-1)<<16 | (straightContexts + n>>countBits&0xfff)
}

// token returns the token of a send context that was just taken. The caller holds mu.
func (p *Process) token(i int, call bool) uint32 {
	if p.uses[i]++; p.uses[i] == 1<<countBits {
		p.uses[i] = 1
	}
	t := uint32(p.uses[i])<<16 | uint32(i)
	if call {
		t |= callBit
	}
	return t
}
