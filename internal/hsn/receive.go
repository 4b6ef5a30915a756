package hsn

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
)

// fragment is half a message, whose other half has not arrived (HSN-9).
type fragment struct {
	header Header
	from   Host
	b      *Buffer
	n      int
	until  clock.Time
}

// Interrupt takes received packets, at most a burst (HSN-30), and then sends waiting messages.
// It reports whether there may be more packets.
func (d *Driver) Interrupt(now clock.Time) (more bool) {
	d.Expire(now)
	took := 0
	for ; took < d.cfg.Burst; took++ {
		b, n, from, ok := d.nic.Next()
		if !ok {
			break
		}
		if took > 0 {
			d.refill()
		}
		d.given--
		d.count.PacketsIn++
		d.receivePacket(now, from, b, n)
	}
	d.depart() // answers leave before the interface gets new buffers
	d.refill()
	return took == d.cfg.Burst
}

// receivePacket takes a packet of n bytes (HSN-32 to HSN-34).
func (d *Driver) receivePacket(now clock.Time, from Host, b *Buffer, n int) {
	var h Header
	var last [HeaderLen]byte
	if n < HeaderLen || n > len(b.Page)+len(b.Rest) {
		d.refuse(b)
		return
	}
	b.at(last[:], n-HeaderLen)
	if h.parse(last[:], n) != nil || h.Host != from.NIC || h.Data > len(b.Page) ||
		(h.Fragment == 1 || !h.Last) && len(b.Page) < MaxPage {
		d.refuse(b)
		return
	}
	switch {
	case d.cfg.Modules[h.Module].Receive == nil:
		d.count.Foreign++
		d.pool.Free(b)
	case h.Last && h.Fragment == 0:
		d.deliver(now, &h, Message{
			From: from, Data: b.Page[:h.Data:h.Data], Header: b.bytes(h.Data, n-h.Data-HeaderLen),
			Buffers: [2]*Buffer{b}})
	default:
		d.join(now, from, &h, b, n)
	}
}

func (d *Driver) refuse(b *Buffer) {
	d.count.Malformed++
	d.pool.Free(b)
}

func (d *Driver) deliver(now clock.Time, h *Header, m Message) {
	d.count.Received++
	d.cfg.Modules[h.Module].Receive(now, m)
}

// join joins a half with the other one, or keeps it until that arrives (HSN-33, HSN-34). The
// message's first buffer is that of the first half, whichever arrived first. The second half of
// the page overwrites the HSN header of the first.
func (d *Driver) join(now clock.Time, from Host, h *Header, b *Buffer, n int) {
	i := slices.IndexFunc(d.fragments, func(f *fragment) bool {
		if d.cfg.Defect == mutate.PagesHalvesMixed {
			return f.from == from
		}
		return f.from == from && f.header.Sequence == h.Sequence && f.header.Module == h.Module
	})
	switch {
	case i < 0:
		d.keep(&fragment{header: *h, from: from, b: b, n: n, until: now.Add(d.cfg.Patience)})
		return
	case d.fragments[i].header.Fragment == h.Fragment:
		d.count.Repeated++
		d.pool.Free(b)
		return
	}
	f := d.fragments[i]
	d.fragments = slices.Delete(d.fragments, i, i+1)
	first, second, length := f.b, b, n
	if h.Fragment == 0 {
		first, second, length = b, f.b, f.n
	}
	d.count.CopiedBytes += uint64(copy(first.Page[HalfPage:MaxPage], second.Page[:HalfPage]))
	header := second.Page[:length-HalfPage-HeaderLen]
	copy(header, second.bytes(HalfPage, len(header)))
	d.deliver(now, h, Message{
		From: from, Data: first.Page[:MaxPage:MaxPage], Header: header[:len(header):len(header)],
		Buffers: [2]*Buffer{first, second}})
}

// keep puts a half into the fragment queue. If the queue is full, it drops the oldest half.
func (d *Driver) keep(f *fragment) {
	if len(d.fragments) == d.cfg.Fragments {
		d.count.Crowded++
		d.forget()
	}
	d.fragments = append(d.fragments, f)
}

// forget drops the oldest half.
func (d *Driver) forget() {
	if d.cfg.Defect != mutate.PagesHalfLeak {
		d.pool.Free(d.fragments[0].b)
	}
	d.fragments = slices.Delete(d.fragments, 0, 1)
}

// Expire drops the halves whose other halves have not arrived in time.
func (d *Driver) Expire(now clock.Time) {
	for len(d.fragments) > 0 && now >= d.fragments[0].until {
		d.count.Expired++
		d.forget()
	}
}

// Next returns the time at which Expire must be called.
func (d *Driver) Next() clock.Time {
	if len(d.fragments) == 0 {
		return clock.Never
	}
	return d.fragments[0].until
}

// Close returns the waiting halves to the pool. The interface keeps the buffers that it has.
func (d *Driver) Close() {
	for len(d.fragments) > 0 {
		d.forget()
	}
}
