package hostile

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// acts holds the misbehaviours. Each uses a foothold for a while, until the foothold is lost.
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

// Act misbehaves in one way against the daemon at socket until ctx ends. others are the names of
// processes that it may disturb. Whenever it loses its foothold, it attaches again at once. It
// returns only errors of the caller.
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

// tolerantly makes an act continue even if it panics because of its own damage to its half.
func tolerantly(f func()) {
	defer func() { _ = recover() }()
	f()
}
