package nic

// freeList recycles table entries, so that the steady state makes none (QNIX-57: managed memory).
type freeList[T any] struct {
	free  []*T
	inUse int
}

func (f *freeList[T]) take() *T {
	f.inUse++
	if n := len(f.free); n > 0 {
		v := f.free[n-1]
		f.free = f.free[:n-1]
		return v
	}
	return new(T)
}

func (f *freeList[T]) give(v *T) {
	f.inUse--
	f.free = append(f.free, v)
}
