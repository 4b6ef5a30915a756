package ctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
)

// Values of SegmentTool.Do.
const (
	SegmentCreate = "create" // make a segment that stays without a process
	SegmentRead   = "read"   // a part of it
	SegmentWrite  = "write"  // a part of it
	SegmentDelete = "delete" // it is freed with the last process that shares it
)

// Rights to a segment for users other than its owner.
const (
	OthersNone  = "none"
	OthersRead  = "read"
	OthersWrite = "write" // write, read and share it
)

// SegmentPiece is how many bytes of a segment one request or reply carries.
const SegmentPiece = 8 << 10

// SegmentTool is a request of a tool about one segment.
type SegmentTool struct {
	Do     string `json:"do"`
	ID     uint32 `json:"id"`
	Bytes  int64  `json:"bytes,omitempty"`  // of a new segment, or to read
	Offset int64  `json:"offset,omitempty"` // of the first byte to read or write
	Data   []byte `json:"data,omitempty"`   // to write
	// After counts the bytes that later requests write after Data; they must fit, too.
	After int64 `json:"after,omitempty"`
	// Others is what other users may do with a new segment; empty: OthersNone.
	Others string `json:"others,omitempty"`
}

// SegmentAnswer is the answer to a SegmentTool.
type SegmentAnswer struct {
	Info SegmentInfo `json:"info"`           // after a read or write only ID and Bytes
	Data []byte      `json:"data,omitempty"` // the bytes read
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	ID        uint32 `json:"id"`
	Bytes     int64  `json:"bytes"`     // of its data
	Owner     int    `json:"owner"`     // the local user
	User      string `json:"user"`      // the name of Owner
	Others    string `json:"others"`    // what other users may do
	Kept      bool   `json:"kept"`      // a tool made it: it stays without a process
	Processes int    `json:"processes"` // processes that share it
	Locks     int    `json:"locks"`     // locks that are set
	Flags     int    `json:"flags"`     // flags that are set
}

// check reports what is wrong with a request about a segment, as far as the request alone shows
// it.
func (s *SegmentTool) check() error {
	switch s.Others {
	case "", OthersNone, OthersRead, OthersWrite:
	default:
		return fmt.Errorf("%w: others %.80q; expected %s, %s or %s", ErrBadRequest, s.Others, OthersNone,
			OthersRead, OthersWrite)
	}
	switch {
	case s.Do == SegmentCreate && (s.Bytes < 1 || s.Bytes > limits.SegmentBytes):
		return fmt.Errorf("%w: segment of %d bytes; expected 1 to %d", ErrBadRequest, s.Bytes, limits.SegmentBytes)
	case s.Offset < 0 || s.Bytes < 0 || s.After < 0 || s.After > limits.SegmentBytes:
		return fmt.Errorf("%w: offset %d, %d bytes and %d after them; expected none below 0", ErrBadRequest,
			s.Offset, s.Bytes, s.After)
	case s.Do == SegmentRead && s.Bytes > SegmentPiece, len(s.Data) > SegmentPiece:
		return fmt.Errorf("%w: %d bytes of a segment; at most %d in a request", ErrBadRequest,
			max(s.Bytes, int64(len(s.Data))), SegmentPiece)
	}
	switch s.Do {
	case SegmentCreate, SegmentRead, SegmentWrite, SegmentDelete:
		return nil
	}
	return fmt.Errorf("%w: unknown request %.80q about segments", ErrBadRequest, s.Do)
}

// Segments lists the segments of the daemon's own NIC.
func (c *Conn) Segments(ctx context.Context) ([]SegmentInfo, error) {
	return list(ctx, c.NIC(0), OpSegments, func(r *Reply) []SegmentInfo { return r.Segments })
}

// CreateSegment makes a segment that stays until DeleteSegment. others gives the rights of other
// users.
func (c *Conn) CreateSegment(ctx context.Context, id uint32, bytes int64, others string) (SegmentInfo, error) {
	a, err := c.segment(ctx, &SegmentTool{Do: SegmentCreate, ID: id, Bytes: bytes, Others: others})
	return a.Info, err
}

// DeleteSegment deletes a segment that CreateSegment made. Processes that share it keep it until
// they release it: the answer tells their number.
func (c *Conn) DeleteSegment(ctx context.Context, id uint32) (SegmentInfo, error) {
	a, err := c.segment(ctx, &SegmentTool{Do: SegmentDelete, ID: id})
	return a.Info, err
}

// ReadSegment reads bytes of a segment from an offset on. If bytes is negative, it reads to the
// end. It reads pieces of SegmentPiece bytes; programs may write between two pieces.
func (c *Conn) ReadSegment(ctx context.Context, id uint32, offset, bytes int64) (data []byte, err error) {
	first, err := c.segment(ctx, &SegmentTool{Do: SegmentRead, ID: id, Offset: offset})
	if err != nil {
		return nil, err
	}
	if bytes < 0 {
		bytes = first.Info.Bytes - offset
	}
	if bytes > first.Info.Bytes-offset { // before any byte is read
		return nil, fmt.Errorf("%w: bytes %d to %d of segment %d; it has %d", ErrBadRequest, offset, offset+bytes,
			id, first.Info.Bytes)
	}
	for int64(len(data)) < bytes {
		at := offset + int64(len(data))
		n := min(bytes-int64(len(data)), SegmentPiece)
		a, err := c.segment(ctx, &SegmentTool{Do: SegmentRead, ID: id, Offset: at, Bytes: n})
		if err != nil {
			return nil, err
		}
		if int64(len(a.Data)) != n {
			return nil, fmt.Errorf("the daemon's reply has %d bytes of segment %d; %d were asked for",
				len(a.Data), id, n)
		}
		data = append(data, a.Data...)
	}
	return data, nil
}

// WriteSegment writes data into a segment from an offset on. It writes all bytes or, if they do
// not fit, none. It writes pieces of SegmentPiece bytes; programs may read between two pieces.
func (c *Conn) WriteSegment(ctx context.Context, id uint32, offset int64, data []byte) error {
	for {
		n := min(len(data), SegmentPiece)
		_, err := c.segment(ctx, &SegmentTool{Do: SegmentWrite, ID: id, Offset: offset, Data: data[:n],
			After: int64(len(data) - n)})
		if err != nil || n == len(data) {
			return err
		}
		data, offset = data[n:], offset+int64(n)
	}
}

func (c *Conn) segment(ctx context.Context, s *SegmentTool) (SegmentAnswer, error) {
	r, _, err := c.call(ctx, &Request{Op: OpSegment, Tool: s}, 0)
	if err != nil {
		return SegmentAnswer{}, err
	}
	if r.Tool == nil {
		return SegmentAnswer{}, errors.New("the daemon's reply to \"segment\" lacks its answer")
	}
	return *r.Tool, nil
}
