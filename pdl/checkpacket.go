package pdl

import "github.com/weftnet/weft/pdl/prog"

// The constant parts of an access to the message are checked: a message has at most
// prog.MaxMessage bytes.

// packet checks an access to a word or byte of the message. least is the number of bytes that it
// needs.
func (c *checker) packet(e *Packet, least int64) {
	if c.init {
		c.noMessage(e.Pos, "PACKET")
	}
	if i, ok := constant(e.Index); ok && (i < 0 || i > prog.MaxMessage || i*e.unit()+least > prog.MaxMessage) {
		what := "bytes"
		if !e.Byte {
			what = "words"
		}
		c.errorf(e.Index.Start(), "index %d: a message has at most %d %s", i, prog.MaxMessage/e.unit(), what)
	}
}

// within checks a length that begins at the byte first of the message.
func (c *checker) within(first int64, length Expr) {
	if first < 0 || first > prog.MaxMessage {
		return // reported already
	}
	if n, ok := constant(length); ok && (n < 0 || n > prog.MaxMessage-first) {
		c.errorf(length.Start(), "LEN is %d bytes, and from here a message has at most %d", n, prog.MaxMessage-first)
	}
}

// fromPacket checks the range of message bytes that is copied to a variable.
func (c *checker) fromPacket(s *Move) {
	if c.init {
		c.noMessage(s.Offset.Start(), "GET … FROM PACKET")
	}
	first, _ := constant(s.Offset)
	if first > prog.MaxMessage {
		c.errorf(s.Offset.Start(), "OFFSET is %d bytes, and a message has at most %d", first, prog.MaxMessage)
	}
	if n, _ := constant(s.Len); n >= 0 { // else the variable's check has failed
		c.within(first, s.Len)
	}
}
