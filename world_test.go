package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// launched sets the environment of one rank in the same way as weft run.
func launched(t *testing.T, app string, rank, size int) {
	t.Helper()
	t.Setenv("WEFT_NAME", app)
	t.Setenv("WEFT_RANK", strconv.Itoa(rank))
	t.Setenv("WEFT_SIZE", strconv.Itoa(size))
	t.Setenv("WEFT_MACHINE", "four")
}

// ranks opens the ranks of a job on a switch.
func ranks(t *testing.T, app string, size int) []*weft.Process {
	t.Helper()
	sw := weft.NewSwitch()
	procs := make([]*weft.Process, size)
	for i := range procs {
		launched(t, app, i, size)
		p, err := weft.Open(t.Context(), weft.Config{Link: sw.Link()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		procs[i] = p
	}
	return procs
}

func TestRanksThatTheLauncherNamesFormTheWorld(t *testing.T) { // QNIX-55
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	procs := ranks(t, "job-1.2", 3)
	together(t, len(procs), func(i int) error {
		p := procs[i]
		if place, want := p.Place(), (weft.Place{Launcher: "weft run", Rank: i, Size: 3, Machine: "four"}); place != want {
			return fmt.Errorf("place %+v; expected %+v", place, want)
		}
		g, err := p.World(ctx)
		if err != nil {
			return err
		}
		if g.Rank() != i || g.Size() != 3 || p.Name() != (weft.Name{App: "job-1.2", Index: uint32(i)}) {
			return fmt.Errorf("%v is rank %d of %d", p.Name(), g.Rank(), g.Size())
		}
		sum := []int64{int64(i)}
		if err := weft.AllReduce(ctx, g, weft.Sum, sum); err != nil || sum[0] != 3 {
			return fmt.Errorf("sum %d, %v", sum[0], err)
		}
		return nil
	})
}

func TestWorldIsOneGroupUntilItIsClosedOrShrunk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	procs := ranks(t, "job", 2)
	together(t, len(procs), func(i int) error {
		p := procs[i]
		first, err := p.World(ctx)
		if err != nil {
			return err
		}
		if again, err := p.World(ctx); err != nil || again != first {
			return fmt.Errorf("the second World is %v, %v; expected the first", again, err)
		}
		shrunk, err := first.Shrink(ctx)
		if err != nil {
			return err
		}
		if again, err := p.World(ctx); err != nil || again != shrunk {
			return fmt.Errorf("World after Shrink is %v, %v; expected %v", again, err, shrunk)
		}
		if err := errors.Join(shrunk.Barrier(ctx), shrunk.Close()); err != nil {
			return err
		}
		fresh, err := p.World(ctx)
		if err != nil {
			return err
		}
		return fresh.Barrier(ctx)
	})
}

func TestTheGroupOfAllRanksMayBeJoinedAtTheStart(t *testing.T) {
	launched(t, "job", 0, 1)
	p, err := weft.Open(t.Context(), weft.Config{Plain: true, Groups: []weft.Membership{{Size: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if g, err := p.World(t.Context()); err != nil || g != p.Group("") {
		t.Errorf("World is %v, %v; expected %v", g, err, p.Group(""))
	}
}

func TestAProcessWithoutALauncherHasNoWorld(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Plain: true, Name: weft.Name{App: "own"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if g, err := p.World(t.Context()); !errors.Is(err, weft.ErrNoLauncher) || g != nil {
		t.Errorf("World of a process that the program named: %v, %v", g, err)
	}
	if place := p.Place(); place != (weft.Place{}) {
		t.Errorf("place of a process that the program named: %+v; expected none", place)
	}
	t.Setenv("WEFT_RANK", "")
	_, opened := weft.Open(t.Context(), weft.Config{Plain: true})
	_, attached := weft.Attach(t.Context(), weft.AttachConfig{})
	for field, err := range map[string]error{"Config.Name": opened, "AttachConfig.Name": attached} {
		if !errors.Is(err, weft.ErrNoLauncher) || !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), field+" is empty") {
			t.Errorf("without a name: %v; expected that %s is empty", err, field)
		}
	}
}

func TestABadEnvironmentIsABadArgument(t *testing.T) {
	launched(t, "job", 2, 2)
	_, opened := weft.Open(t.Context(), weft.Config{Plain: true})
	_, attached := weft.Attach(t.Context(), weft.AttachConfig{})
	for _, err := range []error{opened, attached} {
		if !errors.Is(err, weft.ErrBadArgument) || errors.Is(err, weft.ErrNoLauncher) || !strings.Contains(err.Error(), `WEFT_RANK is "2"`) {
			t.Errorf("rank 2 of 2: %v; expected that WEFT_RANK is wrong", err)
		}
	}
}
