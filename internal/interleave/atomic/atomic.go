// Package atomic is sync/atomic with a step of internal/interleave at each access. It has only
// the functions that the rewritten sources use. Only one side runs at a time, so the accesses
// themselves are plain.
package atomic

import "github.com/weftnet/weft/internal/interleave"

type integer interface {
	~int32 | ~int64 | ~uint32 | ~uint64
}

func load[T any](p *T) T {
	interleave.Step()
	return *p
}

func store[T any](p *T, v T) {
	interleave.Step()
	*p = v
	interleave.After()
}

func swap[T any](p *T, v T) T {
	interleave.Step()
	old := *p
	*p = v
	interleave.After()
	return old
}

func compareAndSwap[T comparable](p *T, old, v T) bool {
	interleave.Step()
	if *p != old {
		return false
	}
	*p = v
	interleave.After()
	return true
}

func add[T integer](p *T, delta T) T {
	interleave.Step()
	*p += delta
	v := *p
	interleave.After()
	return v
}

// LoadInt32 has the meaning of the function in sync/atomic. So have all others.
func LoadInt32(p *int32) int32 { return load(p) }

// LoadUint32 loads a word.
func LoadUint32(p *uint32) uint32 { return load(p) }

// LoadUint64 loads a word.
func LoadUint64(p *uint64) uint64 { return load(p) }

// StoreUint32 stores a word.
func StoreUint32(p *uint32, v uint32) { store(p, v) }

// StoreUint64 stores a word.
func StoreUint64(p *uint64, v uint64) { store(p, v) }

// CompareAndSwapUint64 stores v in a word if its value is old.
func CompareAndSwapUint64(p *uint64, old, v uint64) bool { return compareAndSwap(p, old, v) }

// AddUint32 adds to a word.
func AddUint32(p *uint32, delta uint32) uint32 { return add(p, delta) }

// AddUint64 adds to a word.
func AddUint64(p *uint64, delta uint64) uint64 { return add(p, delta) }

// Bool is an atomic bool.
type Bool struct{ v bool }

// Load loads the value.
func (b *Bool) Load() bool { return load(&b.v) }

// Store stores a value.
func (b *Bool) Store(v bool) { store(&b.v, v) }

// Swap stores a value and returns the old value.
func (b *Bool) Swap(v bool) bool { return swap(&b.v, v) }

// CompareAndSwap stores v if the value is old.
func (b *Bool) CompareAndSwap(old, v bool) bool { return compareAndSwap(&b.v, old, v) }

// number has the methods of the integer types.
type number[T integer] struct{ v T }

// Load loads the value.
func (n *number[T]) Load() T { return load(&n.v) }

// Store stores a value.
func (n *number[T]) Store(v T) { store(&n.v, v) }

// Swap stores a value and returns the old value.
func (n *number[T]) Swap(v T) T { return swap(&n.v, v) }

// CompareAndSwap stores v if the value is old.
func (n *number[T]) CompareAndSwap(old, v T) bool { return compareAndSwap(&n.v, old, v) }

// Add adds to the value and returns the sum.
func (n *number[T]) Add(delta T) T { return add(&n.v, delta) }

// Int32 is an atomic integer.
type Int32 struct{ number[int32] }

// Int64 is an atomic integer.
type Int64 struct{ number[int64] }

// Uint32 is an atomic integer.
type Uint32 struct{ number[uint32] }

// Uint64 is an atomic integer.
type Uint64 struct{ number[uint64] }

// Pointer is an atomic pointer.
type Pointer[T any] struct{ v *T }

// Load loads the value.
func (p *Pointer[T]) Load() *T { return load(&p.v) }

// Store stores a value.
func (p *Pointer[T]) Store(v *T) { store(&p.v, v) }

// Swap stores a value and returns the old value.
func (p *Pointer[T]) Swap(v *T) *T { return swap(&p.v, v) }
