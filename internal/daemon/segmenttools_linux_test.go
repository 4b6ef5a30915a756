package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// A tool is a client of one user. The daemon learns the user from the kernel.
type tool struct {
	t   *testing.T
	d   *watched
	uid int
}

func (c *tool) ask(r ctl.SegmentTool) (*ctl.SegmentAnswer, error) {
	return c.d.segmentFor(&ctl.Client{Peer: ctl.Peer{UID: c.uid}}, &r)
}

func (c *tool) must(r ctl.SegmentTool) *ctl.SegmentAnswer {
	c.t.Helper()
	a, err := c.ask(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// segmentDaemon starts a daemon that lets users 70001 and 70002 in, with a quota of 4,096 bytes.
func segmentDaemon(t *testing.T) (d *watched, own, one, two *tool) {
	t.Helper()
	d = startWatched(t, 1, func(_ int, c *Config) {
		c.AllowUIDs, c.RegionBytes = []int{70001, 70002}, 4096
	})[0]
	t.Cleanup(func() {
		if err := d.dropKept(); err != nil {
			t.Error(err)
		}
	})
	return d, &tool{t, d, os.Getuid()}, &tool{t, d, 70001}, &tool{t, d, 70002}
}

func TestOnlyTheOwnerOfASegmentAndThoseWhomItLetsUseIt(t *testing.T) {
	_, own, one, two := segmentDaemon(t)
	for i, others := range []string{"", ctl.OthersNone, ctl.OthersRead, ctl.OthersWrite} {
		id := uint32(i + 1)
		one.must(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: id, Bytes: 13, Others: others})
		for _, c := range []struct {
			who  *tool
			what string
			may  bool
		}{
			{two, ctl.SegmentRead, others == ctl.OthersRead || others == ctl.OthersWrite},
			{two, ctl.SegmentWrite, others == ctl.OthersWrite},
			{two, ctl.SegmentDelete, false},
			{one, ctl.SegmentRead, true},
			{one, ctl.SegmentWrite, true},
			{own, ctl.SegmentRead, true},
			{own, ctl.SegmentWrite, true},
			{own, ctl.SegmentDelete, true},
		} {
			r := ctl.SegmentTool{Do: c.what, ID: id}
			if c.what == ctl.SegmentWrite {
				r.Data = []byte{7}
			}
			_, err := c.who.ask(r)
			if c.may != (err == nil) || err != nil && !errors.Is(err, ctl.ErrRefused) {
				t.Errorf("user %d may %s a segment of user 70001 with others %q: %v", c.who.uid, c.what, others, err)
			}
		}
	}
	one.must(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 9, Bytes: 8})
	if _, err := two.ask(ctl.SegmentTool{Do: ctl.SegmentWrite, ID: 9}); err == nil ||
		!strings.Contains(err.Error(), "user 70002 may not write segment 9; it is 70001's, and other users may neither read nor write it") {
		t.Errorf("the error is %v", err)
	}
	one.must(ctl.SegmentTool{Do: ctl.SegmentDelete, ID: 9})
}

// A user who is admitted for a job may only run its processes.
func TestAUserWhoOnlyHasJobsMakesNoSegments(t *testing.T) {
	d, _, _, _ := segmentDaemon(t)
	stranger := &tool{t, d, 70003}
	if _, err := stranger.ask(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 1, Bytes: 8}); !errors.Is(err, ctl.ErrRefused) {
		t.Errorf("a user whom no allow_uids names: %v", err)
	}
	stranger.uid = 70001
	stranger.must(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 1, Bytes: 8})
}

func TestTheSegmentsThatAUserKeepsAreBounded(t *testing.T) {
	d, _, one, two := segmentDaemon(t)
	// rounded up to 4,096: the quota
	one.must(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 1, Bytes: 4090})
	if _, err := one.ask(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 2, Bytes: 1}); !errors.Is(err, ctl.ErrNoMemory) || !strings.Contains(err.Error(), "region_bytes") {
		t.Errorf("beyond the quota: %v", err)
	}
	one.must(ctl.SegmentTool{Do: ctl.SegmentDelete, ID: 1})
	for i := range limits.SegmentsKept {
		one.must(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: uint32(i), Bytes: 1})
	}
	if _, err := one.ask(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 5000, Bytes: 1}); !errors.Is(err, ctl.ErrNoMemory) || !strings.Contains(err.Error(), fmt.Sprintf("at most %d", limits.SegmentsKept)) {
		t.Errorf("one more than a user may keep: %v", err)
	}
	if _, err := two.ask(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 3, Bytes: 8}); !errors.Is(err, ctl.ErrTaken) {
		t.Errorf("the number of another user's segment: %v", err)
	}
	// what one user keeps does not count for another
	two.must(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 5000, Bytes: 8})
	if n := len(d.listSegments()); n != limits.SegmentsKept+1 {
		t.Errorf("%d segments are listed, expected %d", n, limits.SegmentsKept+1)
	}
}

func TestAPartBeyondASegmentIsNeitherReadNorWritten(t *testing.T) {
	d, _, one, _ := segmentDaemon(t)
	one.must(ctl.SegmentTool{Do: ctl.SegmentCreate, ID: 1, Bytes: 16})
	one.must(ctl.SegmentTool{Do: ctl.SegmentWrite, ID: 1, Offset: 8, Data: []byte("12345678")})
	for _, r := range []ctl.SegmentTool{
		{Do: ctl.SegmentRead, Offset: 17}, {Do: ctl.SegmentRead, Offset: 9, Bytes: 8}, {Do: ctl.SegmentRead, Offset: 1 << 62, Bytes: 1 << 62},
		{Do: ctl.SegmentWrite, Offset: 9, Data: []byte("12345678")}, {Do: ctl.SegmentWrite, Data: []byte("x"), After: 16}, {Do: ctl.SegmentWrite, Offset: 1 << 62, Data: []byte("x")},
	} {
		r.ID = 1
		if _, err := one.ask(r); !errors.Is(err, ctl.ErrBadRequest) || !strings.Contains(err.Error(), "of segment 1; it has 16") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if got := one.must(ctl.SegmentTool{Do: ctl.SegmentRead, ID: 1, Bytes: 16}).Data; string(got) != "\x00\x00\x00\x00\x00\x00\x00\x0012345678" {
		t.Errorf("the segment has %q", got)
	}
	if _, err := one.ask(ctl.SegmentTool{Do: ctl.SegmentRead, ID: 2}); !errors.Is(err, ctl.ErrNoSegment) || !strings.Contains(err.Error(), "`weft segment list`") {
		t.Errorf("a segment that is not there: %v", err)
	}
	var there bool
	d.loop.Do(func(clock.Time) { there = d.engine.Programs().RemoveSegment(2) == nil })
	if there {
		t.Error("the engine has a segment that no one made")
	}
}

// The daemon counts the requests that it refuses. Those that the client refuses do not reach it.
func TestRefusedRequestsAboutSegmentsAreCounted(t *testing.T) {
	d, _, _, _ := segmentDaemon(t)
	conn, err := ctl.Dial(t.Context(), d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go d.accept()
	t.Cleanup(func() { _ = d.hangUp() })
	if _, err := conn.CreateSegment(t.Context(), 1, 8, ""); err != nil {
		t.Fatal(err)
	}
	if n := d.count(vni.NICSegmentsRefused); n != 0 {
		t.Errorf("%d are counted before any was refused", n)
	}
	if _, err := conn.CreateSegment(t.Context(), 1, 8, ""); !errors.Is(err, ctl.ErrTaken) {
		t.Error(err)
	}
	// refused by the client
	if _, err := conn.ReadSegment(t.Context(), 1, 0, 9); !errors.Is(err, ctl.ErrBadRequest) {
		t.Error(err)
	}
	if err := conn.WriteSegment(t.Context(), 2, 0, nil); !errors.Is(err, ctl.ErrNoSegment) {
		t.Error(err)
	}
	if n := d.count(vni.NICSegmentsRefused); n != 2 {
		t.Errorf("%d refused requests are counted, expected 2", n)
	}
	if _, err := conn.DeleteSegment(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}
