package vni

// Batch is the memory of a StraightReceive that goes on taking messages until it is full, as a multi-receive buffer does: one
// posting for many, and one visit to the NIC for all that have come meanwhile.
//
//	Buf      │ message │ message │ message │            free             │
//	             ▲         ▲         ▲
//	Items    │ tag …   │ tag …   │ tag …   │  up to its capacity
//	             └────┬────┘         │
//	Sources  │      sender       │ sender │  one for messages in a row
//
// It belongs to the NIC while its receive is posted. A message that is not all there when it is matched, or longer than
// what is free, has the receive end first with those that are in; the next that is posted then is like any other receive to
// it, into Buf.
type Batch struct {
	Buf     []byte
	Items   []BatchItem
	Sources []BatchSource

	used int
}

// BatchItem is one message of a batch. It is written field by field: what is put together first, and then copied, has the
// processor wait until the pieces have left its store buffer.
type BatchItem struct {
	Tag     uint64
	Full    uint64 // bytes of it; more than Len if it was cut short
	At, Len uint32 // bytes in Buf
	Token   uint32
	Source  uint32 // index of Sources
}

// BatchSource is who sent messages of a batch.
type BatchSource struct {
	From  Name // if its NIC's names are known here
	NIC   uint64
	Slot  uint16
	Gen   uint32
	Entry any // the NIC's own
}

// NewBatch makes a batch of n bytes for at most so many messages.
func NewBatch(n, messages int) *Batch {
	return &Batch{Buf: make([]byte, n), Items: make([]BatchItem, 0, messages), Sources: make([]BatchSource, 0, 8)}
}

// Reset empties the batch.
func (b *Batch) Reset() {
	clear(b.Sources)
	b.Items, b.Sources, b.used = b.Items[:0], b.Sources[:0], 0
}

// Fits reports whether one more message of n bytes finds room.
func (b *Batch) Fits(n int) bool { return len(b.Items) < cap(b.Items) && n <= len(b.Buf)-b.used }

// Add makes room for n bytes of a message of full, which must fit. The caller fills it.
func (b *Batch) Add(n int, full, tag uint64, token uint32) []byte {
	at := b.used
	b.used += n
	i := len(b.Items)
	b.Items = b.Items[:i+1]
	it := &b.Items[i]
	it.Tag, it.Full, it.At, it.Len, it.Token, it.Source = tag, full, uint32(at), uint32(n), token, uint32(len(b.Sources)-1)
	return b.Buf[at : at+n : at+n]
}

// Free is how many messages more find room, if they have so many bytes in all.
func (b *Batch) Free() (messages, bytes int) { return cap(b.Items) - len(b.Items), len(b.Buf) - b.used }

// Grow makes room for n messages of so many bytes in all, which must be free. The caller fills the items and, from At on, the
// bytes.
func (b *Batch) Grow(n, bytes int) (items []BatchItem, at uint32, data []byte) {
	first, begin := len(b.Items), b.used
	b.Items, b.used = b.Items[:first+n], begin+bytes
	return b.Items[first:], uint32(begin), b.Buf[begin:b.used]
}

// Payload is what the bytes of message i are.
func (b *Batch) Payload(i int) []byte {
	it := &b.Items[i]
	return b.Buf[it.At : it.At+it.Len : it.At+it.Len]
}
