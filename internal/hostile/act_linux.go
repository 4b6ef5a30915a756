package hostile

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// acts are what is done with a foothold, a while each, until it is lost.
var acts = map[string]func(ctx context.Context, f *foothold){
	"scribble":    scribble,
	"garble":      garble,
	"descriptors": descriptors,
	"memory":      memory,
	"stop":        traffic,
	"flood":       flood,
	"rings":       rings,
	"tables":      tables,
}

// Act misbehaves in one way against the daemon at socket until ctx ends. others are the names of processes that it may
// trouble. Whenever it loses its foothold it attaches again at once. An error is one of the caller's.
func Act(ctx context.Context, kind, socket string, seed uint64, others []string, t *Tally) error {
	t.Kind = kind
	rng := rand.New(rand.NewPCG(seed, 17))
	if kind == "control" {
		control(ctx, socket, rng, t)
		return nil
	}
	act := acts[kind]
	if act == nil {
		return unknown(kind)
	}
	var names []vni.Name
	for _, s := range others {
		n, err := vni.ParseName(s)
		if err != nil {
			return err
		}
		names = append(names, n)
	}
	for ctx.Err() == nil {
		name, err := nextName(kind)
		if err != nil {
			return err
		}
		f := &foothold{rng: rng, tally: t, others: names, name: name}
		if err := f.attach(socket); err != nil {
			t.Refused++
			time.Sleep(200 * time.Microsecond)
			continue
		}
		t.Attached++
		act(ctx, f)
		if f.gone() {
			t.ThrownOut++
		}
		f.close()
	}
	return nil
}

// tolerantly has an act go on though it trips over what it has scribbled into its own half.
func tolerantly(f func()) {
	defer func() { _ = recover() }()
	f()
}
