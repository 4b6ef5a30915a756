//go:build unix

package weft_test

import (
	"errors"
	"testing"

	"github.com/weftnet/weft"
	"golang.org/x/sys/unix"
)

// Memory that an operation must not write, or cannot read, is found before the member enters the
// operation. The member then leaves the group.
func TestGatheringLooksAtRegisteredMemoryFirst(t *testing.T) {
	const size = 64
	ctx, groups, procs := crowd(t, on(weft.Config{}), 2, 2)
	sealed, gone := pages(t, 1), pages(t, 1)
	for _, p := range procs {
		register(t, p, sealed, weft.ReadOnly)
		register(t, p, gone, weft.ReadWrite)
	}
	if err := unix.Mprotect(gone, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	// Memory that is only read may be ReadOnly. Memory that the operation ignores may be
	// anything.
	own, two := make([]byte, size), make([]byte, 2*size)
	together(t, 2, func(i int) error {
		g, out := groups[i], make([]byte, 2*size)
		all, from := gone[:2*size], gone[:2*size]
		if i == 0 {
			all, from = out, sealed[:2*size]
		}
		return errors.Join(g.Gather(ctx, 0, sealed[:size], all), g.Scatter(ctx, 0, from, make([]byte, size)),
			g.AllGather(ctx, sealed[:size], out), g.AllToAll(ctx, sealed[:2*size], out))
	})
	type call func(g *weft.Group) error
	calls := map[string]call{
		"a gather of memory that is not mapped":      func(g *weft.Group) error { return g.Gather(ctx, 0, gone[:size], two) },
		"an all-gather of memory that is not mapped": func(g *weft.Group) error { return g.AllGather(ctx, gone[:size], two) },
		"an all-to-all of memory that is not mapped": func(g *weft.Group) error { return g.AllToAll(ctx, gone[:2*size], two) },
		"a scatter of memory that is not mapped":     func(g *weft.Group) error { return g.Scatter(ctx, 0, gone[:2*size], own) },
	}
	for what, bad := range map[string][]byte{"that is registered as ReadOnly": sealed, "that is not mapped": gone} {
		calls["a gather into memory "+what] = func(g *weft.Group) error { return g.Gather(ctx, 0, own, bad[:2*size]) }
		calls["an all-gather into memory "+what] = func(g *weft.Group) error { return g.AllGather(ctx, own, bad[:2*size]) }
		calls["a scatter into memory "+what] = func(g *weft.Group) error { return g.Scatter(ctx, 0, two, bad[:size]) }
		calls["an all-to-all into memory "+what] = func(g *weft.Group) error { return g.AllToAll(ctx, two, bad[:2*size]) }
	}
	for what, call := range calls {
		var again [2]*weft.Group
		together(t, 2, func(i int) error {
			if err := groups[i].Close(); err != nil {
				return err
			}
			var err error
			again[i], err = procs[i].Join(ctx, "w", 2)
			return err
		})
		copy(groups, again[:])
		if err := call(groups[0]); !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("%s: %v; expected %v", what, err, weft.ErrBadArgument)
		}
		if err := groups[0].Barrier(ctx); !errors.Is(err, weft.ErrNoGroup) {
			t.Errorf("a barrier after %s: %v; expected %v", what, err, weft.ErrNoGroup)
		}
		if err := groups[1].Barrier(ctx); !errors.Is(err, weft.ErrGroupBroken) {
			t.Errorf("a barrier of the other member beside %s: %v; expected %v", what, err, weft.ErrGroupBroken)
		}
	}
}
