package daemon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// The daemon makes all memory that it reaches. It makes it of huge pages if that is asked for and if there are some, and counts them whole.
func TestMemoryOfAttachedProcessesIsTheDaemons(t *testing.T) {
	c := configs(t, 1)[0]
	c.RegionBytes = 6 << 20
	run(t, c)
	b, a := mustAttach(t, c, "b/0"), mustAttach(t, c, "a/0")
	if _, err := b.Register(make([]byte, 100), weft.ReadWrite); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "cannot reach") {
		t.Errorf("memory of the process's own: %v", err)
	}
	if _, err := b.AllocHuge(7 << 20); !errors.Is(err, weft.ErrNoMemory) || !strings.Contains(err.Error(), "region_bytes") {
		t.Errorf("more than a process may have: %v", err)
	}
	r, err := b.AllocHuge(3 << 20)
	if err != nil {
		if !errors.Is(err, weft.ErrNoMemory) || !strings.Contains(err.Error(), "huge pages") {
			t.Errorf("huge pages that are not there: %v", err)
		}
		return
	}
	if err := a.Put(t.Context(), r.Handle(), 3<<20-4, []byte("last")); err != nil || string(r.Bytes()[3<<20-4:]) != "last" {
		t.Errorf("put to the end of huge pages: %v", err)
	}
	if _, err := b.Alloc(2<<20 + 1); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("what is left over of the last huge page is not counted: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r, err = b.AllocHuge(3 << 20); err != nil {
		t.Errorf("again: %v", err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
}
