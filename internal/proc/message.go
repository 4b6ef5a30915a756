package proc

import "github.com/weftnet/weft/internal/vni"

// Dest is a process: by name, or by exact address if NIC is not 0. As the source of a receive the zero Dest is any
// process.
type Dest struct {
	Name vni.Name
	NIC  uint64
	Slot uint16
	Gen  uint32 // with a name: 0 is whichever process has the name now; any other must be it
}

// To is the process with a name.
func To(n vni.Name) Dest { return Dest{Name: n} }

// Match is which tags a receive takes.
type Match struct {
	Tag uint64
	Any bool // all of them
}

// AnyTag matches every tag (QNIX-20).
var AnyTag = Match{Any: true}

// Tagged matches one tag.
func Tagged(tag uint64) Match { return Match{Tag: tag} }

// Message is what is known of a received message.
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

// Token names a call to the process that answers it.
//
//	63              32 31           0
//	receipt            token         of the sender: see below
//
// The receipt numbers the calls that the process has received. It is 0 in a message that was not received: a probe has told of it.
type Token uint64

// sent is the token as the sender knows it.
func (t Token) sent() uint32 { return uint32(t) }

// receipt is the number of the call among those that were received.
func (t Token) receipt() uint32 { return uint32(t >> 32) }

// IsCall reports whether it is that of a call: other messages are not answered.
func (t Token) IsCall() bool { return t&callBit != 0 }

// Source is the exact address of the sender.
func (m *Message) Source() Dest { return Dest{Name: m.From, NIC: m.NIC, Slot: m.Slot, Gen: m.Gen} }

// IsCall reports whether the sender awaits a Reply.
func (m *Message) IsCall() bool { return m.Token.IsCall() }

func (m *Message) set(c *vni.Completion) {
	m.From, m.NIC, m.Slot, m.Gen = c.From, c.NIC, c.Slot, c.Gen
	m.Tag, m.Len, m.Full, m.Token = c.Tag, int(c.Len), max(c.Full, c.Len), Token(c.Token)
}

// A token is a process's own name for a send, unique among those that may still be answered:
//
//	31    30           16 15            0
//	call  use count        context         the count begins at 1, so no token is 0
//
// The counts of a process begin at a place of its own, far from those of the processes that had its slot before: an answer
// to one of them that comes late names a send by slot and token only, and must not end another's.
//
// A call says so in its token because an envelope has no flag for it; an answer to another message would find no waiter.
const (
	callBit   = 1 << 31
	countBits = 15

	// countStep is how far the counts of one generation begin from those of the one before: the golden part of all there
	// are, so that also those of many generations in a row stay apart.
	countStep = 20251
)

// firstCount is where the counts of a generation begin.
func firstCount(gen uint32) uint16 { return uint16(gen * countStep & (1<<countBits - 1)) }

// straightContexts is the first context of the tokens of calls by the straight way, which have none: no process has so many.
const straightContexts = 0xf000

// straightToken makes the token of such a call.
func (p *Process) straightToken() uint32 {
	n := p.straightCalls.Add(1)
	return callBit | n&(1<<countBits-1)<<16 | (straightContexts + n>>countBits&0xfff)
}

// token makes the token of a send context that was just taken. Under mu.
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
