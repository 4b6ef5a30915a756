package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/program"
)

// segmentConn starts a daemon, and connects a tool to it.
func segmentConn(t *testing.T) (conn *ctl.Conn, attach func(name string) *weft.Process) {
	t.Helper()
	c := configs(t, 1)[0]
	run(t, c)
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, func(name string) *weft.Process { return mustAttach(t, c, name) }
}

// A program works on a segment that a tool has made and no process shares.
func TestAProgramUsesASegmentThatAToolHasMade(t *testing.T) {
	conn, attach := segmentConn(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := conn.CreateSegment(ctx, 2, 200, ""); err != nil {
		t.Fatal(err)
	}
	p := attach("a/0")
	loadTurn(ctx, t, p)
	s := segment(t, p, 200)
	copy(s.Bytes()[8:], bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 8))
	s.Lock(3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := program.On(p).SendHandled(ctx, program.Address{ID: 9}, 1); err != nil {
		t.Fatal(err)
	}
	got, err := conn.ReadSegment(ctx, 2, 72, 64)
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{255}, 64)) {
		t.Errorf("the program has delivered %x, %v", got, err)
	}
	l, err := conn.Segments(ctx)
	if err != nil || len(l) != 1 || l[0].Bytes != 200 || l[0].Flags != 1 || l[0].Locks != 0 || !l[0].Kept || l[0].Processes != 0 {
		t.Errorf("the segments are %+v, %v", l, err)
	}
}

// All bytes of a long segment can be written and read, in pieces. A write that does not fit
// writes nothing.
func TestALongSegmentIsWrittenAndReadInPieces(t *testing.T) {
	conn, _ := segmentConn(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const size = 3*ctl.SegmentPiece + 16
	if _, err := conn.CreateSegment(ctx, 7, size, ""); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size-5)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if err := conn.WriteSegment(ctx, 7, 6, data); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("one byte too many: %v", err)
	}
	if got, err := conn.ReadSegment(ctx, 7, 0, -1); err != nil || !bytes.Equal(got, make([]byte, size)) {
		t.Errorf("bytes were written though not all fit: %v", err)
	}
	if err := conn.WriteSegment(ctx, 7, 5, data); err != nil {
		t.Fatal(err)
	}
	if got, err := conn.ReadSegment(ctx, 7, 5, -1); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the segment has other bytes than were written: %v", err)
	}
	if _, err := conn.ReadSegment(ctx, 7, 0, size+1); !errors.Is(err, ctl.ErrBadRequest) {
		t.Errorf("a read beyond the end: %v", err)
	}
}

// After a tool has deleted a segment, it is freed with the last process that shares it.
func TestADeletedSegmentStaysForTheProcessesThatHaveIt(t *testing.T) {
	conn, attach := segmentConn(t)
	ctx := t.Context()
	if _, err := conn.CreateSegment(ctx, 2, 200, ""); err != nil {
		t.Fatal(err)
	}
	s := segment(t, attach("a/0"), 200)
	info, err := conn.DeleteSegment(ctx, 2)
	if err != nil || info.Processes != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := conn.DeleteSegment(ctx, 2); !errors.Is(err, ctl.ErrInUse) {
		t.Errorf("a segment of processes alone is deleted: %v", err)
	}
	s.Lock(1)
	if _, err := conn.ReadSegment(ctx, 2, 0, 8); err != nil {
		t.Errorf("its user reads it: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ReadSegment(ctx, 2, 0, 8); !errors.Is(err, ctl.ErrNoSegment) {
		t.Errorf("the last process has released it: %v", err)
	}
	if l, err := conn.Segments(ctx); err != nil || len(l) != 0 {
		t.Errorf("the segments are %+v, %v", l, err)
	}
}
