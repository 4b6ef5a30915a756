// Package hsn is the page driver of network memory (HSN-1 to HSN-40). It sends pages and
// messages about pages as unreliable datagrams. It arranges both so that a page arrives where it
// will stay.
//
// A message of a module is a page, or nothing, and a header. The data is sent first and the
// headers last, so that a page is at the beginning of the buffer that receives it (HSN-14):
//
//	one packet     │ data … │ module header │ HSN header │   at most half a packet's data,
//	                                                         and a header
//	two packets    │ first half │ HSN header │  and  │ second half │ module header │ HSN header │
//
// The driver has the queues of the HSN design: waiting messages, packets that the interface
// still sends, buffers for received packets, and halves that wait for their other half.
//
//	Send ─► pending ─► output: a slot of the send queue, FREE ─► BUSY ─► Interface.Send
//	                           ▲ swept by the next output: Module.Sent ◄── Interface has sent it
//
//	Interface.Next ─► Interrupt: a few per call ─► whole: Module.Receive, which owns the buffer
//	      ▲                                      └─ half: fragment queue ─► both: Module.Receive
//	      └── receive queue, filled from the pool                       └─ Patience: forgotten
//
// Nothing here waits, reads a clock or starts a goroutine. The caller calls the driver when
// something is due, and passes the time. The modules handle loss, order and repetition. There
// are two modules, since a client of page servers and a page server may be on one node.
package hsn
