package userfault

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/memfd"
	"github.com/weftnet/weft/internal/paging"
	"github.com/weftnet/weft/internal/refusal"
)

// region is the memory of one program. A goroutine that has read a fault serves it, while another
// goroutine continues to read.
type region struct {
	p     *Pager
	ctx   context.Context
	abort context.CancelFunc
	page  int64
	begun time.Time
	memfd int
	uffd  *os.File
	mem   memory
	bufs  []byte // one page for each buffer of the table
	zeros []byte // zeroPages pages of zeros
	wg    sync.WaitGroup
	ended chan struct{} // closed when the program has ended
	gone  chan struct{} // closed when another program may have the device

	mu     sync.Mutex
	table  *paging.Table
	do     []paging.Action
	reason error // the last reason why a page could not be loaded or stored
}

var errSlow = errors.New("the device has not taken other pages in time")

// zeroPages is the largest number of pages of zeros that are put into a program's memory at once.
const zeroPages = 8

func newRegion(ctx context.Context, p *Pager) (r *region, err error) {
	size := p.cfg.Device.Size()
	r = &region{p: p, page: p.page, begun: time.Now(), memfd: -1,
		ended: make(chan struct{}), gone: make(chan struct{}), reason: errSlow}
	r.ctx, r.abort = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	limit := int(p.cfg.Resident / p.page)
	if r.table, err = paging.New(paging.Config{
		Pages: int(size / p.page), Limit: limit, Timeout: p.cfg.Timeout}); err != nil {
		return r, err
	}
	if err := refusal.Memory(p.cfg.Resident); err != nil {
		return r, fmt.Errorf("resident memory: %w", err)
	}
	file, err := memfd.Create("weft-mem")
	if err != nil {
		return r, fmt.Errorf("shared memory: %w", err)
	}
	r.memfd = file.FD
	if err := file.Grow(size); err != nil {
		return r, fmt.Errorf("shared memory of %d bytes: %w", size, err)
	}
	// If the file cannot be sealed, Seal does nothing. A program that truncates the file then
	// harms only itself.
	if err := file.Seal(unix.F_SEAL_SHRINK | unix.F_SEAL_GROW); err != nil {
		return r, fmt.Errorf("sealing shared memory: %w", err)
	}
	// The buffers are outside Go's heap. The heap would be allowed to grow by the same size
	// before a collection.
	buffers := paging.Buffers(limit)
	pages := buffers + zeroPages
	if r.bufs, err = unix.Mmap(-1, 0, pages*int(p.page),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return r, fmt.Errorf("%d buffers: %w", pages, refusal.Of("mmap", int64(pages)*p.page, err))
	}
	r.zeros = r.bufs[int64(buffers)*r.page:]
	return r, nil
}

func (r *region) buffer(i int32) []byte {
	return r.bufs[int64(i)*r.page:][:r.page:r.page]
}

func (r *region) now() clock.Time { return clock.Time(time.Since(r.begun)) }

func (r *region) stats() paging.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.table.Stats()
}

// agree is the pager's part of the exchange: it sends the memory and receives the program's
// userfaultfd.
func (r *region) agree(c *net.UnixConn) error {
	size := uint64(r.p.cfg.Device.Size())
	hello := binary.NativeEndian.AppendUint64(nil, size)
	if err := send(c, binary.NativeEndian.AppendUint64(hello, uint64(r.page)), r.memfd); err != nil {
		return fmt.Errorf("sending the memory to a program: %w", err)
	}
	_ = c.SetReadDeadline(time.Now().Add(r.p.cfg.Timeout))
	var answer [8]byte
	fd, err := receive(c, answer[:])
	if err != nil {
		return fmt.Errorf("taking a program's userfaultfd: %w", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	r.mem = memory{fd: fd, base: binary.NativeEndian.Uint64(answer[:]), n: size}
	if err = unix.SetNonblock(fd, true); err == nil {
		err = r.mem.register()
	}
	// This is done late, because polling an unregistered userfaultfd is an error.
	r.uffd = os.NewFile(uintptr(fd), "userfaultfd")
	if err != nil {
		return err
	}
	if err := r.probe(0); err != nil {
		return err
	}
	return r.probe(size - uint64(r.page))
}

// probe checks that a page put into the program's memory appears in the memfd. If the program had
// mapped something else, it would get pages and lose them.
func (r *region) probe(offset uint64) error {
	mark, got := bytes.Repeat([]byte("weft"), int(r.page)/4), make([]byte, r.page)
	err := r.mem.put(offset, mark, true)
	if errors.Is(err, unix.EEXIST) {
		err = fmt.Errorf(
			"something is in the memory at %d already; expected that nothing has touched it, nor locked it (mlockall)",
			offset)
	}
	if err == nil {
		_, err = unix.Pread(r.memfd, got, int64(offset))
	}
	if err == nil && !bytes.Equal(mark, got) {
		err = fmt.Errorf("address %#x is not that of a shared mapping of all the memory", r.mem.base)
	}
	return errors.Join(err, r.cut(offset, uint64(r.page)))
}

// cut removes the content of part of the memory.
func (r *region) cut(offset, n uint64) error {
	return unix.Fallocate(r.memfd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(n))
}

// close ends all work of the region and frees its memory.
func (r *region) close() (err error) {
	r.abort()
	if r.uffd != nil {
		err = r.uffd.Close()
	}
	r.wg.Wait()
	if r.memfd >= 0 {
		err = errors.Join(err, unix.Close(r.memfd))
	}
	if r.bufs != nil {
		err = errors.Join(err, unix.Munmap(r.bufs))
	}
	return err
}

// faults reads faults and handles them until the region ends.
func (r *region) faults() {
	var messages [16 * messageBytes]byte
	for {
		n, err := r.uffd.Read(messages[:])
		if err != nil {
			if r.ctx.Err() == nil && !errors.Is(err, os.ErrClosed) {
				r.p.cfg.Log("reading faults: " + err.Error())
			}
			return
		}
		r.mu.Lock()
		for m := messages[:n]; len(m) >= messageBytes; m = m[messageBytes:] {
			r.take(m)
		}
		loads := r.perform()
		r.mu.Unlock()
		if len(loads) > 0 {
			r.wg.Go(r.faults)
			r.load(loads)
			return
		}
	}
}

// take passes one fault to the table. The lock is held.
func (r *region) take(m []byte) {
	flags, address := binary.NativeEndian.Uint64(m[8:]), binary.NativeEndian.Uint64(m[16:])
	if m[0] != eventPageFault || address-r.mem.base >= r.mem.n {
		return
	}
	page := int((address - r.mem.base) / uint64(r.page))
	if flags&faultProtected != 0 {
		r.table.Protected(page)
	} else {
		r.table.Fault(r.now(), page, flags&faultWrite != 0)
	}
}

// expire gives up faults that have waited too long, until the region ends.
func (r *region) expire() {
	tick := time.NewTicker(max(time.Millisecond, r.p.cfg.Timeout/8))
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
			r.mu.Lock()
			r.table.Expire(r.now())
			r.performAside()
			r.mu.Unlock()
		}
	}
}

// load reads pages from the device. It hands the pages that have arrived to the program before it
// waits for others.
func (r *region) load(pages []paging.Action) {
	bufs, offsets := make([][]byte, len(pages)), make([]int64, len(pages))
	for i, a := range pages {
		bufs[i], offsets[i] = r.buffer(a.Buf), int64(a.Page)*r.page
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.p.cfg.Timeout)
	defer cancel()
	came := make([]error, len(pages))
	var order []int // order in which pages arrived since the last call of hand
	hand := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, i := range order {
			if came[i] != nil {
				r.reason = came[i]
			}
			r.table.Loaded(pages[i].Page, came[i] == nil)
		}
		order = order[:0]
		r.performAside()
	}
	r.p.cfg.Device.ReadMany(ctx, bufs, offsets, func(i int, err error) {
		came[i], order = err, append(order, i)
	}, hand)
	hand()
}

// retryPause is the pause before a failed store is retried.
const retryPause = 100 * time.Millisecond

// store writes a page to the device.
func (r *region) store(a paging.Action) {
	ctx, cancel := context.WithTimeout(r.ctx, r.p.cfg.Timeout)
	_, err := r.p.cfg.Device.WriteAtContext(ctx, r.buffer(a.Buf), int64(a.Page)*r.page)
	cancel()
	if err != nil {
		select {
		case <-r.ctx.Done():
		case <-time.After(retryPause):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.reason = err
	}
	r.table.Stored(a.Page, a.Buf, err == nil)
	r.performAside()
}
