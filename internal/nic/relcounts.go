package nic

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// relCounts returns the counter to which each of rel's statistics adds, as the tags of rel.Stats
// say.
var relCounts = sync.OnceValue(func() (l []relCount) {
	names := vni.Names()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rel.Stats]()) {
		if name, published := f.Tag.Lookup("counter"); published {
			c := slices.Index(names, name)
			if c < 0 {
				panic(fmt.Sprintf("nic: rel.Stats.%s adds to %q, which is no counter", f.Name, name))
			}
			l = append(l, relCount{vni.Counter(c), f.Index[0]})
		}
	}
	return l
})

type relCount struct {
	counter vni.Counter
	field   int // of rel.Stats
}

// collectRel adds rel's counts since the last call. The engine itself adds to some of these
// counters, so they cannot simply be set.
func (e *Engine) collectRel() {
	stats := e.rel.Stats()
	now, before := reflect.ValueOf(stats).Elem(), reflect.ValueOf(&e.publisher.rel).Elem()
	for _, r := range relCounts() {
		e.counts[r.counter] += now.Field(r.field).Uint() - before.Field(r.field).Uint()
	}
	e.publisher.rel = *stats
}
