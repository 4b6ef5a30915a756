package netmem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// The head of an object says where the bytes are. A damaged head is an error and not a missing
// object. Replace then makes a new object.
func TestADamagedHeadIsAnErrorAndMayBeReplaced(t *testing.T) {
	l := newLibrary(t, 1, 2, roomy, sim.Faults{})
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) (err error) {
		id, want := s.hash("replaced", "head"), patterned(9000, 1)
		le := binary.LittleEndian
		sum := func(b []byte) { le.PutUint32(b[24:], crc32.Checksum(b[:24], castagnoli)) }
		for _, c := range []struct {
			what   string
			change func(b []byte)
		}{
			{"another magic", func(b []byte) { b[0]++; sum(b) }},
			{"a wrong checksum", func(b []byte) { b[24]++ }},
			{"a third half", func(b []byte) { le.PutUint32(b[16:], 2); sum(b) }},
			{"a length beyond the bound", func(b []byte) { le.PutUint64(b[8:], maxObjectBytes+1); sum(b) }},
			{"another checksum of the bytes", func(b []byte) { b[20]++; sum(b) }},
		} {
			if failed := s.Replace(ctx, "head", want); failed != nil {
				return fmt.Errorf("%s: replace: %w", c.what, failed)
			}
			got, failed := s.Read(ctx, "head", len(want))
			if failed != nil || !bytes.Equal(got, want) {
				return fmt.Errorf("%s: before it, %d bytes are read: %w", c.what, len(got), failed)
			}
			page := make([]byte, s.page)
			if failed := s.readPage(ctx, id, 0, page, true); failed != nil {
				return failed
			}
			c.change(page)
			if failed := s.writePage(ctx, id, 0, page); failed != nil {
				return failed
			}
			got, failed = s.Read(ctx, "head", maxObjectBytes)
			if failed == nil || got != nil || errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("%s: %d bytes are read: %w", c.what, len(got), failed))
			}
		}
		return err
	})
}

// The limit of Read and the bounds of an object are allowed themselves.
func TestTheBoundsOfAnObjectAreItsOwn(t *testing.T) {
	l := newLibrary(t, 1, 2, roomy, sim.Faults{})
	l.visit(t, func(ctx context.Context, sp *sim.Process, s *Shelf) (err error) {
		want := patterned(100, 1)
		if err := s.Replace(ctx, "o", want); err != nil {
			return err
		}
		for most, ok := range map[int]bool{-1: false, 0: false, 99: false, 100: true, 101: true} {
			if got, failed := s.Read(ctx, "o", most); ok != (failed == nil) || ok && !bytes.Equal(got, want) {
				err = errors.Join(err, fmt.Errorf("at most %d bytes: %d, %w", most, len(got), failed))
			}
		}
		if failed := s.Replace(ctx, "o", nil); failed != nil {
			err = errors.Join(err, failed)
		}
		if got, failed := s.Read(ctx, "o", 0); failed != nil || len(got) != 0 {
			err = errors.Join(err, fmt.Errorf("an empty object: %d bytes, %w", len(got), failed))
		}
		for _, c := range []struct {
			n      int
			offset int64
			ok     bool
		}{{1, -1, false}, {0, -1, false}, {0, maxObjectBytes, true}, {1, maxObjectBytes - 1, true}, {2, maxObjectBytes - 1, false}, {0, maxObjectBytes + 1, false}} {
			failed := s.WriteAt(ctx, "p", make([]byte, c.n), c.offset)
			if c.ok != (failed == nil) || !c.ok && !errors.Is(failed, weft.ErrBadArgument) {
				err = errors.Join(err, fmt.Errorf("write %d bytes at %d: %w", c.n, c.offset, failed))
			}
			if failed = s.ReadAt(ctx, "p", make([]byte, c.n), c.offset); c.ok != (failed == nil) || !c.ok && !errors.Is(failed, weft.ErrBadArgument) {
				err = errors.Join(err, fmt.Errorf("read %d bytes at %d: %w", c.n, c.offset, failed))
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for what, failed := range map[string]error{
			"a write": s.WriteAt(ended, "p", want, 0), "a read": s.ReadAt(ended, "p", want, 0), "a replace": s.Replace(ended, "o", want), "a write of nothing": s.WriteAt(ended, "p", nil, 0),
		} {
			if !errors.Is(failed, context.Canceled) {
				err = errors.Join(err, fmt.Errorf("%s under a context that has ended: %w", what, failed))
			}
		}
		if failed := s.Sync(ctx, "o"); failed != nil {
			err = errors.Join(err, failed)
		}
		s.Close()
		for what, failed := range map[string]error{"a sync": s.Sync(ctx, "o"), "a write": s.WriteAt(ctx, "p", want, 0), "a read": s.ReadAt(ctx, "p", want, 0)} {
			if !errors.Is(failed, weft.ErrClosed) {
				err = errors.Join(err, fmt.Errorf("%s after Close: %w", what, failed))
			}
		}
		return err
	})
}

// The shortest and the longest key are allowed.
func TestTheLimitsOfAKeyAreAllowed(t *testing.T) {
	l := newLibrary(t, 1, 2, roomy, sim.Faults{})
	l.client(t, "client/0", func(ctx context.Context, sp *sim.Process) error {
		for n, ok := range map[int]bool{ShelfKeyLeast - 1: false, ShelfKeyLeast: true, ShelfKeyMost: true, ShelfKeyMost + 1: false} {
			cfg := l.config()
			cfg.Key = string(make([]byte, n))
			s, err := OpenShelf(ctx, sp.Weft(), cfg)
			if ok != (err == nil) || !ok && !errors.Is(err, weft.ErrBadArgument) {
				return fmt.Errorf("a key of %d bytes: %w", n, err)
			}
			if s != nil {
				s.Close()
			}
		}
		return nil
	})
}
