package netmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/weftnet/weft/internal/hsn"
)

// recordLen is the length of a record, the header of each message of a client or a server.
const recordLen = 64

// op is what a request asks for. Its answer has the same op.
type op uint8

const (
	opOpen    op = 1 + iota // is the server there, and does it admit the client?
	opPageOut               // store the page
	opPageIn                // send the page
	opDiscard               // drop the page
	opLeave                 // forget the client and all its pages
	opPageIns               // send each page of a bundle
	ops
)

// status is the result of a request.
type status uint8

const (
	statusOK        status = iota
	statusFull             // no room
	statusQuota            // the client has reached its quota
	statusMissing          // the server does not have the page
	statusRefused          // the server does not admit the client
	statusEpoch            // the server has restarted, or has counted the client as ended
	statusBad              // the request is malformed, or its page damaged
	statusTaken            // another client of this name may be alive: ask again
	statusUnshelved        // the server stores no shelves
	statuses
)

// String returns the text for the user of a client.
func (s status) String() string {
	return [...]string{
		statusOK:      "success",
		statusFull:    "the server has no room",
		statusQuota:   "this client has as much at the server as its quota allows",
		statusMissing: "the server does not have the page",
		statusRefused: "the server does not admit this client",
		statusEpoch:   "the server has restarted, or has taken this client for ended",
		statusBad:     "the server finds the request malformed, or its page damaged",
		statusTaken:   "another client of this name is still alive at the server",
		statusUnshelved: "the server stores no shelves: start it with a time to keep them, " +
			"ServerConfig.Shelve or --shelve",
		statusBusy: "the server is busy",
	}[s]
}

// statusBusy is never sent. The server cannot answer now, and the client asks again.
const statusBusy = statuses

// record is a request or its answer.
//
//	 0  op       1
//	 1  status   1   of an answer; 0 in a request
//	 2  data     1   number of shards that a page is cut into; 1: each server has all of it
//	 3  parity   1   number of further shards, each of which replaces any one
//	 4  request  4   the client's number of the request; the same in the answer
//	 8  volume   8
//	16  page     8   its number in the volume
//	24  version  8   of the page; in an answer, the server's; to open: when the client began
//	32  epoch    8   of the client's life at the server; in a request, 0 or the known one
//	40  crc      4   of the page, if there is one: CRC-32C
//	44  size     4   of the page
//	48  room     8   in an answer: bytes that the client may still use; in a request: the shelf
//	56  sum      4   CRC-32C of the bytes that follow; equal to crc if they are the whole page
//	60  kept     2   length of the page as servers keep it; less than size if it is compressed
//	62  shard    1   number of the shard that follows
//	63  shelved  1   1: the volume is an object of a shelf; the operation leave clears the shelf
type record struct {
	op      op
	status  status
	request uint32
	volume  uint64
	page    uint64
	version uint64
	epoch   uint64
	room    uint64
	shelved bool
	shape
}

// shape describes the bytes that a server has of a page. The server checks only sum and the limits
// of isShard. The other fields are for the client.
type shape struct {
	code  Code
	crc   uint32
	sum   uint32
	size  uint32
	kept  uint16
	shard uint8
}

func (r *record) put(b []byte) {
	_ = b[recordLen-1]
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = byte(r.op), byte(r.status), byte(r.code.Data), byte(r.code.Parity)
	le.PutUint32(b[4:], r.request)
	le.PutUint64(b[8:], r.volume)
	le.PutUint64(b[16:], r.page)
	le.PutUint64(b[24:], r.version)
	le.PutUint64(b[32:], r.epoch)
	le.PutUint32(b[40:], r.crc)
	le.PutUint32(b[44:], r.size)
	le.PutUint64(b[48:], r.room)
	le.PutUint32(b[56:], r.sum)
	le.PutUint16(b[60:], r.kept)
	b[62], b[63] = r.shard, 0
	if r.shelved {
		b[63] = 1
	}
}

var errRecord = errors.New("netmem: malformed record")

func (r *record) parse(b []byte) error {
	if len(b) != recordLen {
		return fmt.Errorf("%w: %d bytes, expected %d", errRecord, len(b), recordLen)
	}
	le := binary.LittleEndian
	*r = record{
		op: op(b[0]), status: status(b[1]), request: le.Uint32(b[4:]),
		volume: le.Uint64(b[8:]), page: le.Uint64(b[16:]),
		version: le.Uint64(b[24:]), epoch: le.Uint64(b[32:]), room: le.Uint64(b[48:]), shelved: b[63] == 1,
		shape: shape{
			code: Code{Data: int(b[2]), Parity: int(b[3])}, crc: le.Uint32(b[40:]),
			sum: le.Uint32(b[56:]), size: le.Uint32(b[44:]),
			kept: le.Uint16(b[60:]), shard: b[62],
		},
	}
	if r.op == 0 || r.op >= ops || r.status >= statuses || b[63] > 1 {
		return fmt.Errorf("%w: op %d, status %d", errRecord, b[0], b[1])
	}
	return nil
}

// isShard reports whether a shape can be that of a page or a shard. The server refuses other
// shapes, which no client could use.
func (s *shape) isShard() bool {
	return s.code.Data > 0 && int(s.shard) < s.code.Data+s.code.Parity && s.size > 0 && s.size <= hsn.MaxPage
}

// matches reports whether a page is the one that an answer describes.
func (r *record) matches(page []byte) bool {
	return page != nil && crc32.Checksum(page, castagnoli) == r.crc
}
