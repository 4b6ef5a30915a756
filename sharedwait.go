package weft

import (
	"context"
	"fmt"
)

// WaitFlag waits until flag i, 0 to 255, is set, and clears it. WaitFlag fails with
// [ErrBadArgument] if i is out of range, with [ErrClosed] if the segment is closed, and with ctx's
// error if ctx ends first.
func (s *SharedSegment) WaitFlag(ctx context.Context, i int) error {
	return s.wait(ctx, "flag", s.flags, i, isSet, clearFlag)
}

// WaitLock waits until lock i, 0 to 255, is clear. A program in the NIC that clears a lock wakes
// all waiters of the segment, in every process that shares it. WaitLock does not set the lock: a
// caller that wants to hold it calls [SharedSegment.Lock], and waits again if Lock returns false.
// If another caller sets the lock before a waiter looks, that waiter waits for the next clear.
//
// WaitLock fails with [ErrBadArgument] if i is out of range, with [ErrClosed] if the segment or its
// process is closed, and with ctx's error if ctx has ended or ends first.
func (s *SharedSegment) WaitLock(ctx context.Context, i int) error {
	switch {
	case ctx.Err() != nil:
		return segmentError(fmt.Sprintf("wait for lock %d of", i), s.id, ctx.Err())
	case s.p.p.Closed():
		return segmentError(fmt.Sprintf("wait for lock %d of", i), s.id, ErrClosed)
	}
	return s.wait(ctx, "lock", s.locks, i, isClear, isClear)
}

func isClear(word *uint32) bool { return !isSet(word) }

// wait waits until take, called with the i-th of words, returns true. Between the calls of take it
// sleeps until the word is ready to take. It looks at the word again before it sleeps, so it misses
// no wake-up.
func (s *SharedSegment) wait(
	ctx context.Context, what string, words []uint32, i int, is, take func(*uint32) bool,
) error {
	fail := func(err error) error { return segmentError(fmt.Sprintf("wait for %s %d of", what, i), s.id, err) }
	if i < 0 || i >= len(words) {
		return fail(fmt.Errorf("%w: expected 0 to %d", ErrBadArgument, len(words)-1))
	}
	if !s.use() {
		return fail(ErrClosed)
	}
	defer s.waits.Done()
	for word := &words[i]; !take(word); {
		if err := s.p.p.Await(ctx, func() bool { return is(word) || s.ended.Load() }); err != nil {
			return fail(err)
		}
		if s.ended.Load() {
			return fail(ErrClosed)
		}
	}
	return nil
}

// use keeps the memory until the caller calls waits.Done. It returns false if the segment is
// closed.
func (s *SharedSegment) use() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ended.Load() {
		return false
	}
	s.waits.Add(1)
	return true
}
