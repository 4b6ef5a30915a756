// Package sync is package sync with a step of internal/interleave at each lock. It has only the
// types that the rewritten sources use.
package sync

import (
	"sync"

	"github.com/weftnet/weft/internal/interleave"
)

// Mutex is a lock. A side waits for it in the same way as for any condition. A side that is
// unwound takes a lock even if it is held.
type Mutex struct{ held bool }

// Lock waits until the lock is free, and takes it.
func (m *Mutex) Lock() {
	interleave.Block(func() bool { return !m.held })
	m.held = true
}

// TryLock takes the lock if it is free.
func (m *Mutex) TryLock() bool {
	interleave.Step()
	if m.held {
		return false
	}
	m.held = true
	return true
}

// Unlock releases the lock.
func (m *Mutex) Unlock() {
	interleave.Step()
	m.held = false
	interleave.After()
}

// Pool is sync.Pool.
type Pool = sync.Pool

// Once is sync.Once.
type Once = sync.Once

// WaitGroup is sync.WaitGroup.
type WaitGroup = sync.WaitGroup

// OnceValue is sync.OnceValue.
func OnceValue[T any](f func() T) func() T { return sync.OnceValue(f) }
