// Package freelist keeps what comes and goes, so that the steady state makes none of it (QNIX-57: managed memory).
package freelist

// List is the values of one type that are not in use, and how many are. The zero value has none.
type List[T any] struct {
	free  []*T
	inUse int
}

// Take returns one that was given back, as it was then, or a new one.
func (l *List[T]) Take() *T {
	l.inUse++
	if n := len(l.free); n > 0 {
		v := l.free[n-1]
		l.free = l.free[:n-1]
		return v
	}
	return new(T)
}

// Give gives one back.
func (l *List[T]) Give(v *T) {
	l.inUse--
	l.free = append(l.free, v)
}

// InUse is how many are taken and not given back.
func (l *List[T]) InUse() int { return l.inUse }

// Made is how many there are, in use or not.
func (l *List[T]) Made() int { return len(l.free) + l.inUse }
