package ctl

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

func TestRequestsAboutSegmentsAreChecked(t *testing.T) {
	for in, want := range map[string]string{
		`{"do":"fly","id":1}`:                          `unknown request "fly" about segments`,
		`{"do":"create","id":1}`:                       "segment of 0 bytes; expected 1 to 67108864",
		`{"do":"create","id":1,"bytes":67108865}`:      "segment of 67108865 bytes; expected 1 to 67108864",
		`{"do":"create","bytes":8,"others":"all"}`:     `others "all"; expected none, read or write`,
		`{"do":"create","id":4294967296,"bytes":8}`:    "cannot unmarshal number",
		`{"do":"create","id":-1,"bytes":8}`:            "cannot unmarshal number",
		`{"do":"read","id":1,"offset":-1}`:             "offset -1, 0 bytes and 0 after them; expected none below 0",
		`{"do":"read","id":1,"bytes":-1}`:              "expected none below 0",
		`{"do":"read","id":1,"bytes":8193}`:            "8193 bytes of a segment; at most 8192 in a request",
		`{"do":"write","id":1,"after":-1}`:             "expected none below 0",
		`{"do":"write","id":1,"after":67108865}`:       "67108865 after them",
		`{"do":"read","id":1,"bytes":8,"colour":true}`: `unknown field "colour"`,
	} {
		_, err := DecodeRequest(fmt.Appendf(nil, `{"version":1,"op":"segment","segment_tool":%s}`, in))
		if !errors.Is(err, ErrBadRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; expected %q", in, err, want)
		}
	}
	if _, err := DecodeRequest([]byte(`{"version":1,"op":"segment"}`)); !errors.Is(err, ErrBadRequest) {
		t.Errorf("without its arguments: %v", err)
	}
	if _, err := DecodeRequest([]byte(`{"version":1,"op":"segments","nic":"7"}`)); !errors.Is(err, ErrBadRequest) {
		t.Errorf("of another NIC: %v", err)
	}
	longest := &Request{Op: OpSegment, Tool: &SegmentTool{Do: SegmentWrite, ID: 1<<32 - 1, Offset: limits.SegmentBytes, Data: make([]byte, SegmentPiece), After: limits.SegmentBytes}}
	if b, err := longest.Encode(); err != nil || len(b) > MaxRequest {
		t.Errorf("the longest request has %d bytes, and one may have %d: %v", len(b), MaxRequest, err)
	}
}

func TestEachBoundOfARequestAboutASegmentIsKept(t *testing.T) {
	for _, c := range []struct {
		s    SegmentTool
		good bool
	}{
		{SegmentTool{Do: SegmentCreate, Bytes: 1}, true},
		{SegmentTool{Do: SegmentCreate, Bytes: limits.SegmentBytes}, true},
		{SegmentTool{Do: SegmentRead, Bytes: SegmentPiece}, true},
		{SegmentTool{Do: SegmentWrite, Data: make([]byte, SegmentPiece), After: limits.SegmentBytes}, true},
		{SegmentTool{Do: SegmentWrite, Data: make([]byte, SegmentPiece+1)}, false},
		{SegmentTool{Do: SegmentWrite, Bytes: -1}, false},
		{SegmentTool{Do: SegmentDelete}, true},
	} {
		if err := c.s.check(); c.good != (err == nil) || err != nil && !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s of %d bytes with %d: %v; expected that it is good: %v", c.s.Do, c.s.Bytes, len(c.s.Data), err, c.good)
		}
	}
}
