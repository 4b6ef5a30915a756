package launch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/weftnet/weft"
)

// Bounds of a job's key-value space. PMI-1 tells its clients the first two.
const (
	MaxKeyBytes   = 255
	MaxValueBytes = 4096
	MaxKVSBytes   = 8 << 20 // keys and values of one job
)

// entry is one value of the key-value space. In a message:
//
//	length of the key 1 · key · length of the value 2 · value
type entry struct{ key, value string }

func (e *entry) size() int { return 1 + len(e.key) + 2 + len(e.value) }

func putEntries(b []byte, k kind, more bool, entries []entry) []byte {
	b = append(b, byte(k), putBool(more))
	for i := range entries {
		e := &entries[i]
		b = append(append(b, byte(len(e.key))), e.key...)
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(e.value))), e.value...)
	}
	return b
}

// entries reads entries to the end of the message.
func (f *fields) entries() (list []entry) {
	if len(f.b) > maxEntries {
		f.fail("%d bytes of entries; expected at most %d", len(f.b), maxEntries)
	}
	for f.err == nil && len(f.b) > 0 {
		key := f.take(int(f.byte(1, MaxKeyBytes)))
		length := f.take(2)
		if length == nil {
			return nil
		}
		n := int(binary.LittleEndian.Uint16(length))
		if n > MaxValueBytes {
			f.fail("a value of %d bytes; expected at most %d", n, MaxValueBytes)
			return nil
		}
		list = append(list, entry{string(key), string(f.take(n))})
	}
	if f.err != nil {
		return nil
	}
	return list
}

// batches cuts entries into messages of at most maxEntries bytes. The last one has more = false.
func batches(entries []entry, send func(more bool, part []entry) error) error {
	for {
		n, size := 0, 0
		for n < len(entries) && size+entries[n].size() <= maxEntries {
			size += entries[n].size()
			n++
		}
		if err := send(n < len(entries), entries[:n]); err != nil || n == len(entries) {
			return err
		}
		entries = entries[n:]
	}
}

// kvs is the key-value space of one keeper: the values that its ranks put, and those that
// barriers brought.
type kvs struct {
	k    *keeper
	gate *weft.Gate

	mu       sync.Mutex
	values   map[string]string
	put      []entry // since the last barrier
	bytes    int     // of all values put here
	entered  bool    // a barrier waits
	released bool
}

func newKVS(k *keeper) *kvs { return &kvs{k: k, gate: k.rt.NewGate(), values: make(map[string]string)} }

// Put stores a value.
func (s *kvs) Put(key, value string) error {
	e := entry{key, value}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(key) == 0 || len(key) > MaxKeyBytes || len(value) > MaxValueBytes:
		return fmt.Errorf("launch: a key of %d bytes with %d bytes; expected 1 to %d with at most %d",
			len(key), len(value), MaxKeyBytes, MaxValueBytes)
	case s.bytes+e.size() > MaxKVSBytes:
		return fmt.Errorf("launch: the key-value space of the job has more than %d bytes", MaxKVSBytes)
	}
	s.bytes += e.size()
	s.values[key] = value
	s.put = append(s.put, e)
	return nil
}

// Get returns a value.
func (s *kvs) Get(key string) (value string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok = s.values[key]
	return value, ok
}

// Barrier sends the values put here since the last barrier, and waits until every host has done
// so.
func (s *kvs) Barrier(ctx context.Context) error {
	s.mu.Lock()
	if s.entered {
		s.mu.Unlock()
		return errors.New("launch: this host already waits in a barrier")
	}
	put := s.put
	s.put, s.entered, s.released = nil, true, false
	s.mu.Unlock()
	err := batches(put, func(more bool, part []entry) error { return s.k.say(barrierMsg{more, part}) })
	for err == nil && !s.isReleased() {
		err = s.gate.Wait(ctx)
	}
	return err
}

func (s *kvs) isReleased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// release stores the values that a barrier has brought.
func (s *kvs) release(m releaseMsg) {
	s.mu.Lock()
	for _, e := range m.entries {
		s.values[e.key] = e.value
	}
	if !m.more && s.entered {
		s.entered, s.released = false, true
	}
	s.mu.Unlock()
	if !m.more {
		s.gate.Open()
	}
}

// Abort ends the job.
func (s *kvs) Abort(rank, status int, message string) { _ = s.k.say(abortMsg{rank, status, message}) }
