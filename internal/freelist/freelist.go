// Package freelist keeps unused values for reuse, so that the steady state allocates none
// (QNIX-57: managed memory).
package freelist

// List holds the unused values of one type, and counts those in use. The zero value is empty.
type List[T any] struct {
	free  []*T
	inUse int
}

// Take returns a value that was given back, unchanged, or a new one.
func (l *List[T]) Take() *T {
	l.inUse++
	if n := len(l.free); n > 0 {
		v := l.free[n-1]
		l.free = l.free[:n-1]
		return v
	}
	return new(T)
}

// Give gives a value back.
func (l *List[T]) Give(v *T) {
	l.inUse--
	l.free = append(l.free, v)
}

// InUse returns the number of values that were taken and not given back.
func (l *List[T]) InUse() int { return l.inUse }

// Made returns the number of all values, in use or not.
func (l *List[T]) Made() int { return len(l.free) + l.inUse }
