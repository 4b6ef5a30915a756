package netmem

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// recordLen is the length of a record: the header of each message of a client or a server.
const recordLen = 64

// op is what a request asks for. The answer has the same.
type op uint8

const (
	opOpen    op = 1 + iota // is the server there, and may the client use it?
	opPageOut               // keep the page
	opPageIn                // send the page
	opDiscard               // forget the page
	ops
)

// status is how a request ended.
type status uint8

const (
	statusOK      status = iota
	statusFull           // no room: another server may have some
	statusQuota          // the client has as much as it may
	statusMissing        // the server does not have the page
	statusRefused        // the client may not use the server
	statusEpoch          // the server has restarted since the client opened it
	statusBad            // the request makes no sense, or its page is damaged
	statuses
)

// statusBusy is none that goes out: the server cannot answer just now, and the client asks again.
const statusBusy = statuses

// record is a request, or its answer.
//
//	 0  op       1
//	 1  status   1   of an answer; 0 in a request
//	 2  zero     2
//	 4  request  4   the client's number of it, which the answer has, too
//	 8  volume   8
//	16  page     8   its number in the volume
//	24  version  8   of the page: in an answer that of the page that the server has
//	32  epoch    8   of the server: in a request 0, or the one that the client knows
//	40  crc      4   of the page, if there is one: CRC-32C
//	44  size     4   of a page that is asked for
//	48  room     8   in an answer: bytes that the client could still have there
//	56  zero     8
type record struct {
	op      op
	status  status
	request uint32
	volume  uint64
	page    uint64
	version uint64
	epoch   uint64
	crc     uint32
	size    uint32
	room    uint64
}

func (r *record) put(b []byte) {
	_ = b[recordLen-1]
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = byte(r.op), byte(r.status), 0, 0
	le.PutUint32(b[4:], r.request)
	le.PutUint64(b[8:], r.volume)
	le.PutUint64(b[16:], r.page)
	le.PutUint64(b[24:], r.version)
	le.PutUint64(b[32:], r.epoch)
	le.PutUint32(b[40:], r.crc)
	le.PutUint32(b[44:], r.size)
	le.PutUint64(b[48:], r.room)
	le.PutUint64(b[56:], 0)
}

var errRecord = errors.New("netmem: malformed record")

func (r *record) parse(b []byte) error {
	if len(b) != recordLen {
		return fmt.Errorf("%w: %d bytes, want %d", errRecord, len(b), recordLen)
	}
	le := binary.LittleEndian
	*r = record{
		op: op(b[0]), status: status(b[1]), request: le.Uint32(b[4:]), volume: le.Uint64(b[8:]), page: le.Uint64(b[16:]),
		version: le.Uint64(b[24:]), epoch: le.Uint64(b[32:]), crc: le.Uint32(b[40:]), size: le.Uint32(b[44:]), room: le.Uint64(b[48:]),
	}
	if r.op == 0 || r.op >= ops || r.status >= statuses || b[2] != 0 || b[3] != 0 || le.Uint64(b[56:]) != 0 {
		return fmt.Errorf("%w: op %d, status %d", errRecord, b[0], b[1])
	}
	return nil
}
