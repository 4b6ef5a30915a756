package ctl

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// aSegment answers like a daemon that has one segment.
func aSegment(mem []byte) func(r *Request) (*Reply, []int) {
	return func(r *Request) (*Reply, []int) {
		s := r.Tool
		size := int64(len(mem))
		switch {
		case s.Do == SegmentRead && s.Offset+s.Bytes <= size:
			return &Reply{Tool: &SegmentAnswer{Info: SegmentInfo{ID: s.ID, Bytes: size}, Data: slices.Clone(mem[s.Offset:][:s.Bytes])}}, nil
		case s.Do == SegmentWrite && s.Offset+int64(len(s.Data))+s.After <= size:
			copy(mem[s.Offset:], s.Data)
			return &Reply{Tool: &SegmentAnswer{}}, nil
		}
		return ErrorReply(ErrBadRequest), nil
	}
}

// held returns the content of a daemon's segment.
func held(a *answers, mem []byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(mem)
}

func TestASegmentIsReadAndWrittenInPiecesThatFit(t *testing.T) {
	mem := make([]byte, 3*SegmentPiece)
	a := &answers{}
	c := dial(t, a.serve(t))
	for i, part := range []struct{ offset, bytes int }{
		{0, 0}, {0, 1}, {5, SegmentPiece - 1}, {0, SegmentPiece}, {1, SegmentPiece + 1}, {0, 2 * SegmentPiece},
		{7, 2*SegmentPiece + 3}, {0, len(mem)}, {len(mem), 0},
	} {
		a.set(aSegment(mem))
		data := bytes.Repeat([]byte{byte(i + 1)}, part.bytes)
		for j := range data {
			data[j] ^= byte(j >> 5)
		}
		want := held(a, mem)
		copy(want[part.offset:], data)
		err := c.WriteSegment(t.Context(), 3, int64(part.offset), data)
		if has := held(a, mem); err != nil || !bytes.Equal(has, want) {
			t.Errorf("a write of %d bytes at %d: %v; the bytes are as they should be: %v", part.bytes, part.offset, err, bytes.Equal(has, want))
		}
		left := int64(part.bytes)
		for _, r := range a.requests() {
			if left -= int64(len(r.Tool.Data)); r.Tool.After != left {
				t.Errorf("a piece of a write of %d bytes says that %d follow; expected %d", part.bytes, r.Tool.After, left)
			}
		}
		if n := len(a.requests()); n != max(1, (part.bytes+SegmentPiece-1)/SegmentPiece) {
			t.Errorf("a write of %d bytes takes %d requests", part.bytes, n)
		}
		got, err := c.ReadSegment(t.Context(), 3, int64(part.offset), int64(part.bytes))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("a read of %d bytes at %d: %d bytes, %v", part.bytes, part.offset, len(got), err)
		}
		got, err = c.ReadSegment(t.Context(), 3, int64(part.offset), -1)
		if err != nil || !bytes.Equal(got, want[part.offset:]) {
			t.Errorf("a read from %d to the end: %d bytes, %v", part.offset, len(got), err)
		}
	}
}

func TestAReadBehindTheEndOfASegmentAsksForNoByte(t *testing.T) {
	mem := make([]byte, 100)
	a := &answers{of: aSegment(mem)}
	c := dial(t, a.serve(t))
	for _, part := range []struct{ offset, bytes int64 }{{0, 101}, {100, 1}, {40, 61}} {
		a.set(aSegment(mem))
		if _, err := c.ReadSegment(t.Context(), 3, part.offset, part.bytes); !errors.Is(err, ErrBadRequest) || len(a.requests()) != 1 {
			t.Errorf("%d bytes at %d: %v after %d requests", part.bytes, part.offset, err, len(a.requests()))
		}
	}
	if err := c.WriteSegment(t.Context(), 3, 40, make([]byte, 61)); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a write behind the end: %v", err)
	}
}

// Each request of a read or write may fail. The caller gets that error, and no later request
// follows.
func TestAReadOrWriteOfASegmentEndsWithTheFirstPieceThatFails(t *testing.T) {
	mem := make([]byte, 3*SegmentPiece)
	a := &answers{of: aSegment(mem)}
	c := dial(t, a.serve(t))
	whole := aSegment(mem)
	failAt := func(n int, reply *Reply) {
		calls := 0
		a.set(func(r *Request) (*Reply, []int) {
			if calls++; calls == n {
				return reply, nil
			}
			return whole(r)
		})
	}
	for n := 1; n <= 4; n++ {
		failAt(n, ErrorReply(ErrNoSegment))
		if data, err := c.ReadSegment(t.Context(), 3, 0, -1); !errors.Is(err, ErrNoSegment) || data != nil || len(a.requests()) != n {
			t.Errorf("request %d of a read fails: %d bytes, %v after %d requests", n, len(data), err, len(a.requests()))
		}
		if n == 4 {
			break // a write has no request that only reads
		}
		failAt(n, ErrorReply(ErrNoSegment))
		if err := c.WriteSegment(t.Context(), 3, 0, make([]byte, len(mem))); !errors.Is(err, ErrNoSegment) || len(a.requests()) != n {
			t.Errorf("request %d of a write fails: %v after %d requests", n, err, len(a.requests()))
		}
	}
	for _, n := range []int{SegmentPiece - 1, SegmentPiece + 1, 0} {
		failAt(2, &Reply{Tool: &SegmentAnswer{Info: SegmentInfo{Bytes: int64(len(mem))}, Data: make([]byte, n)}})
		if _, err := c.ReadSegment(t.Context(), 3, 0, -1); err == nil {
			t.Errorf("a piece of %d bytes is taken for one of %d", n, SegmentPiece)
		}
	}
}
