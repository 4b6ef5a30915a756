package hsn

import "fmt"

// message is a module's message that waits to be sent, or whose second half waits.
type message struct {
	module   ModuleID
	to       Host
	data     []byte
	header   []byte
	cookie   uint64
	sequence uint32
	half     bool // its first half was given to the interface
}

// slot is a packet that the interface sends (HSN-7).
type slot struct {
	busy    bool // BUSY, else FREE
	headers []byte
	module  ModuleID
	cookie  uint64
	tells   bool // its message ends with this packet
}

// Send sends data and a header from a module to the other module of a host. data is a page of at
// most MaxPage bytes, or empty; the header has at most MaxHeader bytes. Both must stay as they
// are until the module's Sent gets the cookie (HSN-31, HSN-38). A message longer than a packet
// travels in two packets; only one with a page of MaxPage bytes may be that long. Send returns
// ErrMessage or ErrBusy.
func (d *Driver) Send(module ModuleID, to Host, data, header []byte, cookie uint64) error {
	switch {
	case len(header) > MaxHeader:
		return fmt.Errorf("%w: a header of %d bytes, at most %d", ErrMessage, len(header), MaxHeader)
	case len(data)+len(header)+HeaderLen > MaxPacket && len(data) != MaxPage:
		return fmt.Errorf("%w: %d bytes of data do not fit in one packet; of two, the page has %d",
			ErrMessage, len(data), MaxPage)
	case len(d.pending)-d.first >= d.cfg.Pending:
		return ErrBusy
	}
	d.sequence++
	d.pending = append(d.pending,
		message{module: module, to: to, data: data, header: header, cookie: cookie, sequence: d.sequence})
	d.output(false)
	return nil
}

// Output sends waiting messages as far as the interface takes them, and tells the modules which
// messages have left (HSN-35 to HSN-39). If a module sends from within Sent, the current call
// serves it.
func (d *Driver) Output() { d.output(true) }

// output does the work of Output. If walks is false, it walks over the send queue only if it
// needs a slot, so that not every message costs a walk.
func (d *Driver) output(walks bool) {
	if d.outputs {
		return
	}
	d.outputs = true
	free := d.vacant(0)
	if walks {
		free = d.sweep()
	}
	for d.first < len(d.pending) {
		if free < 0 {
			free = d.sweep()
		}
		if free < 0 || !d.transmit(free, &d.pending[d.first]) {
			d.count.Deferred++
			break
		}
		free = d.vacant(free + 1)
	}
	if d.first == len(d.pending) {
		d.pending, d.first = d.pending[:0], 0
	} else if d.first > cap(d.pending)/2 {
		n := copy(d.pending, d.pending[d.first:])
		clear(d.pending[n:])
		d.pending, d.first = d.pending[:n], 0
	}
	d.outputs = false
}

// depart sends waiting messages now, as far as possible. If there are more messages than slots,
// later ones use the slots of earlier ones.
func (d *Driver) depart() {
	d.Output()
	for d.nic.Flush(); d.first < len(d.pending); d.nic.Flush() {
		before := d.count.PacketsOut
		if d.Output(); d.count.PacketsOut == before {
			return
		}
	}
}

// sweep walks over the send queue. It frees the slots of packets that have left, and tells their
// modules. It returns a free slot, or -1.
func (d *Driver) sweep() int {
	for i := range d.slots {
		s := &d.slots[i]
		if s.busy && d.nic.Done(i) {
			s.busy = false
			d.busy--
			if s.tells {
				d.cfg.Modules[s.module].Sent(s.cookie)
			}
		}
	}
	return d.vacant(0)
}

// vacant returns the first slot, from an index on, that is known to be free, or -1.
func (d *Driver) vacant(from int) int {
	for i := from; i < len(d.slots); i++ {
		if !d.slots[i].busy {
			return i
		}
	}
	return -1
}

// transmit gives the interface the next packet of a message: data first, headers last (HSN-36).
func (d *Driver) transmit(i int, m *message) bool {
	s := &d.slots[i]
	h := Header{Host: d.cfg.Host, Sequence: m.sequence, Module: m.module.other(), Last: true}
	data := m.data
	if len(data)+len(m.header)+HeaderLen > MaxPacket {
		if h.Last = m.half; m.half {
			data, h.Fragment = data[HalfPage:], 1
		} else {
			data = data[:HalfPage]
		}
	}
	h.Data = len(data)
	s.headers = s.headers[:0]
	if h.Last {
		s.headers = append(s.headers, m.header...)
	}
	n := len(s.headers)
	s.headers = s.headers[:n+HeaderLen]
	h.put(s.headers[n:])
	if !d.nic.Send(i, m.to, data, s.headers) {
		return false
	}
	d.count.PacketsOut++
	d.busy++
	*s = slot{busy: true, headers: s.headers, module: m.module, cookie: m.cookie, tells: h.Last}
	if m.half = !h.Last; h.Last {
		d.count.Sent++
		*m = message{}
		d.first++
	}
	return true
}

// Idle reports whether no message waits and the interface has no packet to send.
func (d *Driver) Idle() bool { return d.busy == 0 && d.first == len(d.pending) }
