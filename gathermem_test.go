//go:build unix

package weft_test

import (
	"errors"
	"testing"

	"github.com/weftnet/weft"
	"golang.org/x/sys/unix"
)

// Members that bring memory which the operation may not write, or cannot read, are told before they enter it: the group goes on.
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
	own, two := make([]byte, size), make([]byte, 2*size)
	for what, bad := range map[string][]byte{"that is registered as ReadOnly": sealed, "that is not mapped": gone} {
		for i, g := range groups {
			sent := sends(procs[i].NIC())
			errs := map[string]error{
				"an all-gather into memory ": g.AllGather(ctx, own, bad[:2*size]),
				"a scatter into memory ":     g.Scatter(ctx, 0, two, bad[:size]),
				"an all-to-all into memory ": g.AllToAll(ctx, two, bad[:2*size]),
			}
			if i == 0 {
				errs["a gather into memory "] = g.Gather(ctx, 0, own, bad[:2*size])
			}
			for how, err := range errs {
				if !errors.Is(err, weft.ErrBadArgument) {
					t.Errorf("%s%s, by member %d: %v", how, what, i, err)
				}
			}
			if n := sends(procs[i].NIC()) - sent; n != 0 {
				t.Errorf("%d operations left nevertheless", n)
			}
		}
	}
	for i, g := range groups {
		errs := map[string]error{
			"a gather": g.Gather(ctx, 0, gone[:size], two), "an all-gather": g.AllGather(ctx, gone[:size], two), "an all-to-all": g.AllToAll(ctx, gone[:2*size], two),
		}
		if i == 0 {
			errs["a scatter"] = g.Scatter(ctx, 0, gone[:2*size], own)
		}
		for how, err := range errs {
			if !errors.Is(err, weft.ErrBadArgument) {
				t.Errorf("%s of memory that is not mapped, by member %d: %v", how, i, err)
			}
		}
	}
	// What is read may be ReadOnly, and what is not looked at may be anything.
	together(t, 2, func(i int) error {
		g, out := groups[i], make([]byte, 2*size)
		all, from := gone[:2*size], gone[:2*size]
		if i == 0 {
			all, from = out, sealed[:2*size]
		}
		return errors.Join(g.Gather(ctx, 0, sealed[:size], all), g.Scatter(ctx, 0, from, make([]byte, size)),
			g.AllGather(ctx, sealed[:size], out), g.AllToAll(ctx, sealed[:2*size], out))
	})
}
