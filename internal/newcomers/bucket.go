package newcomers

import (
	"sync"
	"time"
)

// Bucket permits Burst actions at once, and one more every Every in the long run.
type Bucket struct {
	Burst int
	Every time.Duration

	spent float64 // of Burst
	at    time.Time
}

// Take spends one action. It reports false if none is left.
func (b *Bucket) Take(now time.Time) bool {
	b.fill(now)
	if b.spent > float64(b.Burst-1) {
		return false
	}
	b.spent++
	return true
}

// Return undoes a Take.
func (b *Bucket) Return() { b.spent = max(0, b.spent-1) }

// Full reports whether all of Burst is left, as in a new Bucket.
func (b *Bucket) Full(now time.Time) bool {
	b.fill(now)
	return b.spent == 0
}

func (b *Bucket) fill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.spent = max(0, b.spent-float64(passed)/float64(b.Every))
		b.at = now
	}
}

// Buckets holds a Bucket for each of at most Most Sources.
type Buckets struct {
	Most, Burst int
	Every       time.Duration

	mu  sync.Mutex
	all map[Source]*Bucket
}

// Take spends one action of a Source. It reports false if none is left.
func (b *Buckets) Take(of Source, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.all[of]
	if one == nil {
		if len(b.all) >= b.Most {
			b.forget(now)
		}
		if b.all == nil {
			b.all = make(map[Source]*Bucket)
		}
		one = &Bucket{Burst: b.Burst, Every: b.Every}
		b.all[of] = one
	}
	return one.Take(now)
}

// Return undoes a Take.
func (b *Buckets) Return(of Source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.all[of]; one != nil {
		one.Return()
	}
}

// forget removes the Sources whose Buckets are full. If there are none, it removes the Source that
// spent the least.
func (b *Buckets) forget(now time.Time) {
	var least *Bucket
	var of Source
	for s, one := range b.all {
		switch {
		case one.Full(now):
			delete(b.all, s)
		case least == nil || one.spent < least.spent:
			least, of = one, s
		}
	}
	if len(b.all) >= b.Most {
		delete(b.all, of)
	}
}
