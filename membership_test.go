package weft_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

func TestEveryProcessBelongsToTheGroupOfItsApplication(t *testing.T) { // QNIX-55
	links(t, func(t *testing.T, n *network) {
		h := hosts(t, n, 2)
		attach := func(nic int, app string, index uint32) *weft.Process {
			p, err := h[nic].Attach(t.Context(), weft.Name{App: app, Index: index})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		a, other, b := attach(0, "w", 10), attach(0, "x", 0), attach(1, "w", 9)
		becomes := func(p *weft.Process, want string) {
			t.Helper()
			var got string
			for deadline := time.Now().Add(time.Minute); got != want; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%v is with %s; expected %s", p.Name(), got, want)
				}
				names, err := p.AppGroup(t.Context())
				got = fmt.Sprint(names, err)
			}
		}
		becomes(a, "[w/9 w/10] <nil>")
		becomes(b, "[w/9 w/10] <nil>")
		becomes(other, "[x/0] <nil>")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		becomes(a, "[w/10] <nil>")
		if names, err := b.AppGroup(t.Context()); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("of a closed process: %v, %v", names, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if names, err := a.AppGroup(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v, %v", names, err)
		}
	})
}

func TestGroupsAreJoinedAtAttachInAnyOrder(t *testing.T) { // QNIX-54
	links(t, func(t *testing.T, n *network) {
		h := hosts(t, n, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		orders := [][]weft.Membership{
			{{Size: 3}, {Group: "pair", Size: 2}, {Group: "other", Size: 2}},
			{{Group: "other", Size: 2}, {Group: "pair", Size: 2}, {Group: "w", Size: 3}},
			{{Size: 3}},
		}
		together(t, len(orders), func(i int) error {
			p, err := h[i%2].Attach(ctx, weft.Name{App: "w", Index: uint32(i)}, orders[i]...)
			if err != nil {
				return err
			}
			v := []int64{1}
			if err := weft.AllReduce(ctx, p.Group(""), weft.Sum, v); err != nil || v[0] != 3 || p.Group("w").Size() != 3 {
				return fmt.Errorf("sum %d over the application: %w", v[0], err)
			}
			if (p.Group("pair") == nil) != (i == 2) || p.Group("none") != nil {
				return errors.New("other groups than at attach")
			}
			if i == 2 {
				return nil
			}
			return p.Group("other").Barrier(ctx)
		})
	})
}

func TestAProcessThatCannotBeInItsGroupIsNotAttached(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		h := hosts(t, n, 1)
		name := weft.Name{App: "w", Index: 0}
		for _, l := range [][]weft.Membership{{{Size: 1}, {Size: 2}}, {{Size: -1}}, {{Group: "No", Size: 1}}, {{Group: "a", Size: 1}, {Group: "a", Size: 1}}} {
			var ge *weft.GroupError
			if p, err := h[0].Attach(t.Context(), name, l...); !errors.As(err, &ge) || p != nil {
				t.Errorf("%v: %v, %v; expected a GroupError", l, p, err)
			}
		}
		p, err := h[0].Attach(t.Context(), name, weft.Membership{Size: 1})
		if err != nil || p.Group("").Rank() != 0 {
			t.Errorf("nothing is left of those that failed, but: %v", err)
		}
	})
}

func TestEmbeddedNICsHavePositionsOnATorus(t *testing.T) { // QNIX-52
	links(t, func(t *testing.T, n *network) {
		const side = 2
		var all []*weft.NIC
		defer func() { closeAll(t, all) }()
		var nodes []weft.Node
		for i := range side * side {
			var h *weft.NIC
			n.add(t, func(c weft.Config) (err error) {
				if i == 0 {
					refusesPositions(t, c) // and releases the resources of its link
				}
				c.Nodes, c.Position = nodes, weft.Position{X: i % side, Y: i / side, Width: side, Height: side}
				h, err = weft.OpenNIC(t.Context(), c)
				return err
			})
			all, nodes = append(all, h), append(nodes, weft.Node{ID: h.ID(), Addr: h.Addr()})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		together(t, len(all), func(i int) error {
			p, err := all[i].Attach(ctx, weft.Name{App: "t", Index: uint32(i)}, weft.Membership{Size: len(all)})
			if err != nil {
				return err
			}
			v := []int64{int64(i)}
			if err := weft.AllReduce(ctx, p.Group(""), weft.Max, v); err != nil || v[0] != side*side-1 {
				return fmt.Errorf("the largest rank is %d: %w", v[0], err)
			}
			return nil
		})
	})
}

func refusesPositions(t *testing.T, c weft.Config) {
	t.Helper()
	for _, p := range []weft.Position{{X: 1}, {X: 2, Width: 2, Height: 1}, {Y: -1, Width: 2, Height: 2}, {Width: 5000, Height: 1}} {
		c.Position = p
		if h, err := weft.OpenNIC(t.Context(), c); err == nil || h != nil {
			t.Errorf("a NIC at %+v: %v; expected an error", p, err)
		}
	}
}
