package weft_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// openTwin opens a process of a rank for which the launcher may already have started another
// process.
func openTwin(t *testing.T, sw *weft.Switch, rank, size, incarnation int, key string) (*weft.Process, error) {
	t.Helper()
	launched(t, "job", rank, size)
	t.Setenv("WEFT_INCARNATION", strconv.Itoa(incarnation))
	t.Setenv("WEFT_JOB_KEY", key)
	p, err := weft.Open(t.Context(), weft.Config{Link: sw.Link()})
	if err == nil {
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Errorf("close %v: %v", p.Name(), err)
			}
		})
	}
	return p, err
}

const jobKey = "0123456789abcdef"

// twin opens a process of one of two ranks. The open must succeed.
func twin(t *testing.T, sw *weft.Switch, rank, incarnation int) *weft.Process {
	t.Helper()
	p, err := openTwin(t, sw, rank, 2, incarnation, jobKey)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestANewerProcessOfARankReplacesTheEarlierOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sw := weft.NewSwitch()
	first, older := twin(t, sw, 0, 1), twin(t, sw, 1, 1)
	worlds := make([]*weft.Group, 2)
	together(t, 2, func(i int) (err error) {
		worlds[i], err = []*weft.Process{first, older}[i].World(ctx)
		return err
	})
	lost := older.Watch()
	waits := make(chan error, 1)
	go func() {
		_, err := older.Recv(ctx, weft.AnyProcess, 7, make([]byte, 8))
		waits <- err
	}()

	newer := twin(t, sw, 1, 2)
	if err := <-waits; !errors.Is(err, weft.ErrNameLost) {
		t.Errorf("a receive of the earlier process ends with %v; expected ErrNameLost", err)
	}
	if err := older.Send(ctx, first.Name(), 7, nil); !errors.Is(err, weft.ErrNameLost) {
		t.Errorf("a send of the earlier process ends with %v; expected ErrNameLost", err)
	}
	if e, err := lost.Next(ctx); err != nil || e.Kind != weft.EventNameLost || e.Addr != newer.Address() {
		t.Errorf("the earlier process hears %+v, %v; expected EventNameLost for %v", e, err, newer.Address())
	}
	if err := worlds[1].Barrier(ctx); !errors.Is(err, weft.ErrNameLost) {
		t.Errorf("a barrier of the earlier process ends with %v; expected ErrNameLost", err)
	}
	if err := worlds[0].Barrier(ctx); !errors.Is(err, weft.ErrGroupBroken) {
		t.Errorf("a barrier of the other rank ends with %v; expected ErrGroupBroken", err)
	}
	if err := worlds[0].Close(); err != nil {
		t.Error(err)
	}
	together(t, 2, func(i int) error {
		g, err := []*weft.Process{first, newer}[i].World(ctx)
		if err != nil {
			return err
		}
		if a, err := first.WaitName(ctx, g.Member(1)); err != nil || a != newer.Address() {
			t.Errorf("rank 1 is the process at %v, %v; expected %v", a, err, newer.Address())
		}
		return g.Barrier(ctx)
	})
}

func TestAnEarlierProcessOfARankLearnsThatItIsReplaced(t *testing.T) {
	sw := weft.NewSwitch()
	twin(t, sw, 0, 1)
	newer := twin(t, sw, 1, 2)
	if _, err := openTwin(t, sw, 1, 2, 1, jobKey); !errors.Is(err, weft.ErrNameLost) || errors.Is(err, weft.ErrNameTaken) {
		t.Errorf("an earlier process that comes late: %v; expected ErrNameLost", err)
	}
	if _, err := newer.AppGroup(t.Context()); err != nil {
		t.Errorf("the newer process: %v", err)
	}
}

func TestOnlyProcessesOfTheJobReplaceARank(t *testing.T) {
	sw := weft.NewSwitch()
	twin(t, sw, 0, 1)
	holder := twin(t, sw, 1, 1)
	for what, key := range map[string]string{"another key": "fedcba9876543210", "no key": ""} {
		if _, err := openTwin(t, sw, 1, 2, 9, key); !errors.Is(err, weft.ErrNameTaken) {
			t.Errorf("a process with %s: %v; expected ErrNameTaken", what, err)
		}
	}
	if _, err := openTwin(t, sw, 1, 2, 1, jobKey); !errors.Is(err, weft.ErrNameTaken) {
		t.Errorf("a second process of the same incarnation: %v; expected ErrNameTaken", err)
	}
	if _, err := holder.AppGroup(t.Context()); err != nil {
		t.Errorf("the first process: %v", err)
	}
	if _, err := openTwin(t, sw, 0, 2, 1, "short"); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a short job key: %v; expected ErrBadArgument", err)
	}
}
