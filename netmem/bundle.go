package netmem

import (
	"encoding/binary"

	"github.com/weftnet/weft/internal/hsn"
)

// A bundle is one message with several requests for pages of one server. Each request in a bundle
// has its own number. Each request is answered, retransmitted and given up separately.
//
//	begin … ──► gathered, by server ──► depart: a bundle ──► the server: handle … ──► answer …
//
// The data of a bundle are its requests:
//
//	0  request  4   the client's number of the request
//	4  page     8
const bundled = 12

// mostBundled is the largest number of requests in a bundle. That many requests fit into one frame
// of the usual size.
const mostBundled = 64

// collect delays requests for pages until depart. The port's lock is held.
func (c *Client) collect() { c.collects = true }

// dispatch sends a request, or gathers it for a bundle. The port's lock is held.
func (c *Client) dispatch(k *call) {
	if k.record.op != opPageIn || !c.collects {
		c.transmit(k)
		return
	}
	s := k.to
	switch n := len(s.gathered); {
	case n == 0:
		c.departing = append(c.departing, s)
	case n == mostBundled || !s.gathered[0].record.joins(&k.record):
		c.bundle(s)
	}
	s.gathered = append(s.gathered, k)
}

// joins reports whether two requests for pages may be in one bundle, which has one header.
func (r *record) joins(o *record) bool {
	return r.epoch == o.epoch && r.volume == o.volume && r.room == o.room && r.shelved == o.shelved
}

// depart sends the gathered requests. The port's lock is held.
func (c *Client) depart() {
	c.collects = false
	for _, s := range c.departing {
		c.bundle(s)
	}
	clear(c.departing)
	c.departing = c.departing[:0]
}

// bundle sends the gathered requests of one server.
func (c *Client) bundle(s *server) {
	if len(s.gathered) == 1 {
		c.transmit(s.gathered[0])
	} else {
		k := &call{to: s, record: s.gathered[0].record, data: make([]byte, 0, len(s.gathered)*bundled)}
		k.record.op, k.record.page = opPageIns, 0
		k.record.put(k.header[:])
		for _, g := range s.gathered {
			k.data = binary.LittleEndian.AppendUint32(k.data, g.record.request)
			k.data = binary.LittleEndian.AppendUint64(k.data, g.record.page)
		}
		c.transmit(k)
	}
	clear(s.gathered)
	s.gathered = s.gathered[:0]
}

// eachOf calls serve for each request of a bundle, and reports whether the data are well-formed.
func eachOf(data []byte, serve func(request uint32, page uint64)) bool {
	if len(data) == 0 || len(data)%bundled != 0 || len(data) > mostBundled*bundled {
		return false
	}
	for ; len(data) > 0; data = data[bundled:] {
		serve(binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint64(data[4:]))
	}
	return true
}

// unbundle serves each request of a bundle like a single request, and reports whether the bundle is
// well-formed.
func (s *Server) unbundle(q request) bool {
	data := q.m.Data
	q.op, q.m = opPageIn, hsn.Message{From: q.m.From} // its buffers are the bundle's
	return eachOf(data, func(request uint32, page uint64) {
		q.record.request, q.record.page = request, page
		s.handle(q)
	})
}
