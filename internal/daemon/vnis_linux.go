package daemon

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
	"github.com/weftnet/weft/internal/vni"
)

// vnis makes the memory of virtual network interfaces. Some are made before any process asks
// (QNIX-2), so that a shortage shows when the daemon starts. More are made as they are needed
// (QNIX-4).
//
//	prepare ──► idle ── take ──► used ── give ──► unmapped
//	              ▲                        │
//	              └────── a new one ───────┘  unless there are enough
//
// No memory is used a second time: its process may keep a mapping for as long as it likes, and
// would see the data of its successor. Idle memory has no pages: the kernel provides them as they
// are touched.
type vnis struct {
	geometry vni.Geometry // the usual one, of prepared VNIs
	prepared int          // how many of the usual geometry there are at least, idle or used

	mu    sync.Mutex
	idle  []*vniMemory
	used  map[*vniMemory]struct{}
	ready int // of the usual geometry: those used, idle, and about to be made
}

// vniMemory is the memory of one VNI.
type vniMemory struct {
	rw, ro *memory
	usual  bool // of the usual geometry
	onFly  bool // made on request
}

// sameSizes reports whether two geometries are equal but for the colour, on which no size
// depends.
func sameSizes(a, b vni.Geometry) bool {
	a.Colour, b.Colour = 0, 0
	return a == b
}

// prepare makes the VNIs that exist before a process asks.
func (v *vnis) prepare(g vni.Geometry, n int) error {
	v.geometry, v.prepared, v.ready, v.used = g, n, n, make(map[*vniMemory]struct{})
	for range n {
		m, err := newVNIMemory(g)
		if err != nil {
			return fmt.Errorf("VNI %d of %d: %w", len(v.idle)+1, n, explainFiles(err))
		}
		m.usual = true
		v.idle = append(v.idle, m)
	}
	return nil
}

// take returns zeroed memory for a VNI. All pages but the pool's are present.
func (v *vnis) take(g vni.Geometry) (m *vniMemory, err error) {
	usual := sameSizes(g, v.geometry)
	v.mu.Lock()
	if last := len(v.idle) - 1; usual && last >= 0 {
		m, v.idle = v.idle[last], v.idle[:last]
	}
	v.mu.Unlock()
	if m == nil {
		if m, err = newVNIMemory(g); err != nil {
			return nil, explainFiles(err)
		}
		m.usual, m.onFly = usual, true
	}
	if err := m.provide(g); err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		if !m.onFly {
			v.ready--
		}
		return nil, errors.Join(err, m.close())
	}
	v.mu.Lock()
	v.used[m] = struct{}{}
	if m.usual && m.onFly {
		v.ready++
	}
	v.mu.Unlock()
	return m, nil
}

// give takes back the memory of a VNI that no goroutine of the daemon touches any more. If it was
// one of those made beforehand, give makes another in its place. A lack of memory is then not
// reported to the process that goes: the next one will see it.
func (v *vnis) give(m *vniMemory) error {
	v.mu.Lock()
	delete(v.used, m)
	if m.usual {
		v.ready--
	}
	more := v.ready < v.prepared
	if more {
		v.ready++
	}
	v.mu.Unlock()
	err := m.close()
	if !more {
		return err
	}
	m, e := newVNIMemory(v.geometry)
	v.mu.Lock()
	defer v.mu.Unlock()
	if e != nil {
		v.ready--
		return err
	}
	m.usual = true
	v.idle = append(v.idle, m)
	return err
}

// close frees the idle VNIs.
func (v *vnis) close() error {
	var errs []error
	for _, m := range v.idle {
		errs = append(errs, m.close())
	}
	v.idle = nil
	return errors.Join(errs...)
}

func newVNIMemory(g vni.Geometry) (*vniMemory, error) {
	rw, ro := g.Sizes()
	m := &vniMemory{}
	var err error
	if m.rw, err = newMemory("vni rw", rw, false); err != nil {
		return nil, err
	}
	if m.ro, err = newMemory("vni ro", ro, true); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// mapped returns the size in bytes.
func (m *vniMemory) mapped() int { return len(m.rw.mem) + len(m.ro.mem) }

// provide makes the kernel provide the pages that every process uses, so that a shortage shows
// here and not on the data path. The pool's pages come as they are used: they are nine tenths of
// a VNI, and most processes use few of them.
func (m *vniMemory) provide(g vni.Geometry) error {
	from, to := g.PoolRange()
	for _, part := range []struct {
		m        *memory
		from, to int
	}{{m.rw, 0, from}, {m.rw, to, len(m.rw.mem)}, {m.ro, 0, len(m.ro.mem)}} {
		err := unix.Madvise(part.m.mem[part.from:part.to], unix.MADV_POPULATE_WRITE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			// Before Linux 5.14, or under a filter of system calls, fallocate makes the pages,
			// and they are mapped as they are touched. Memory without seals is left out: its
			// descriptor may be read-only.
			if err = nil; part.m.unsealed == nil {
				err = unix.Fallocate(part.m.fd, 0, int64(part.from), int64(part.to-part.from))
			}
		}
		if err != nil {
			return fmt.Errorf("shared memory of %d bytes: %w", part.to-part.from,
				refusal.Of("fallocate", int64(part.to-part.from), err))
		}
	}
	return nil
}

func (m *vniMemory) close() error {
	var errs []error
	for _, part := range []*memory{m.rw, m.ro} {
		if part != nil {
			errs = append(errs, part.close())
		}
	}
	return errors.Join(errs...)
}
