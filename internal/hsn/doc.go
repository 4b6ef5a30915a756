// Package hsn is the page driver of network memory (HSN-1 to HSN-40): it sends pages and what is said of them as unreliable datagrams,
// and arranges both so that a page arrives where it will stay.
//
// A message of a module is a page, or nothing, and a header. What is sent is the data first and the headers last, so that a page lies
// at the beginning of the buffer that it is received into (HSN-14):
//
//	one packet     │ data … │ module header │ HSN header │           data of at most half of what a packet carries, and a header
//	two packets    │ first half │ HSN header │  and  │ second half │ module header │ HSN header │
//
// The driver has the queues of its design: messages that wait, packets that the interface has not finished with, buffers to receive
// into, and halves whose other half has yet to come.
//
//	Send ─► pending ─► output: a slot of the send queue, FREE ─► BUSY ─► Interface.Send
//	                           ▲ swept by the next output: Module.Sent ◄── Interface has done with it
//
//	Interface.Next ─► Interrupt: a few packets a call ─► whole: Module.Receive, which now owns the buffer
//	      ▲                                            └─ a half: fragment queue ─► the other comes: joined, Module.Receive
//	      └── receive queue, filled from the pool                               └─ Patience: forgotten
//
// Nothing here waits, reads a clock or starts a goroutine: a caller has it do what is due, and says what time it is. Loss, order and
// repetition are the modules' business, of which there are two: a client of page servers and a page server may be on one node.
package hsn
