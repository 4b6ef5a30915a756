// Package sync is package sync with a step of internal/interleave at each lock, as far as the rewritten sources use it.
package sync

import (
	"sync"

	"github.com/weftnet/weft/internal/interleave"
)

// Mutex is a lock for which a side waits as for anything else. A side that is unwound takes a lock that is held.
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

// Unlock gives the lock back.
func (m *Mutex) Unlock() {
	interleave.Step()
	m.held = false
	interleave.After()
}

// Pool is that of package sync.
type Pool = sync.Pool

// Once is that of package sync.
type Once = sync.Once

// WaitGroup is that of package sync.
type WaitGroup = sync.WaitGroup

// OnceValue is that of package sync.
func OnceValue[T any](f func() T) func() T { return sync.OnceValue(f) }
