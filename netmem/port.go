package netmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/refusal"
)

// Datagrams with pages go from pagePort to pagePort with one tag.
const (
	pagePort uint16   = 0xff00
	pageTag  weft.Tag = 0
)

// port is the page driver of a process, on top of the process's datagrams. pump decides which
// goroutine receives packets. A goroutine that sends takes the lock.
type port struct {
	p      *weft.Process
	defect mutate.PageDefect
	own    *weft.Port // pagePort, which one server or client of a process can have
	begun  time.Time
	pool   *hsn.Pool
	unmap  func() error // frees its memory: a mapping or a region
	looks  func() bool  // reports, under the lock, whether calls use its memory; nil: none do
	stop   context.CancelFunc
	ctx    context.Context

	mu     sync.Mutex
	driver *hsn.Driver
	sends  []weft.Op // by slot
	sent   []bool    // by slot: whether the Op was ever started
	recvs  []*receive
	spare  []*receive
	names  map[hsn.Host]weft.Name // of hosts that have sent lately
	err    error                  // why the port has ended: see fail
	pump   pump
	wakes  bool // a packet has brought an answer
	late   lateness
	unsent bool // packets may wait in the port
	drains bool // sentBeside runs
	// lent is the number of outstanding loans of memory to a file. The memory is freed when there
	// are none.
	lent     atomic.Int32
	returned bool        // its memory was freed
	failed   atomic.Bool // err is set, for calls that must not take the lock
}

// receive is a posted receive of a datagram and its buffer.
type receive struct {
	op weft.Op
	b  *hsn.Buffer
}

const (
	portBuffers = 48 // in the receive queue
	// There are as many slots as requests in a bundle. If the link allows it, the answers to a
	// bundle leave by one system call.
	portSlots = 64
	portNames = 4096
)

// newPort makes a driver's memory, with some pages in addition to the receive queue. begin starts
// the driver.
func newPort(p *weft.Process, pageBytes, pages int, d mutate.PageDefect) (*port, error) {
	own, err := p.Port(pagePort)
	if errors.Is(err, weft.ErrPortInUse) {
		return nil, fmt.Errorf("netmem: process %v has a server or a client already; expected one with neither: %w",
			p.Name(), err)
	}
	if err != nil {
		return nil, err
	}
	pages += portBuffers
	mem, unmap, err := pageMemory(p, pages*(pageBytes+hsn.RestBytes)+pageBytes)
	if err != nil {
		_ = own.Close()
		return nil, fmt.Errorf("netmem: %d pages of %d bytes: %w", pages, pageBytes, err)
	}
	mem = aligned(mem, pageBytes)
	n := pages * pageBytes
	o := &port{p: p, defect: d, own: own, begun: p.Runtime().Now(), unmap: unmap,
		pool:  hsn.NewPool(pageBytes, mem[:n:n], mem[n:n+pages*hsn.RestBytes]),
		names: map[hsn.Host]weft.Name{}}
	o.sends, o.sent = make([]weft.Op, portSlots), make([]bool, portSlots)
	o.ctx, o.stop = context.WithCancel(context.Background())
	o.pump.free, o.late.look = p.Runtime().NewGate(), p.Runtime().NewGate()
	return o, nil
}

// mapped is the size from which memory for an embedded NIC is mapped outside Go's heap.
const mapped = 4 << 20

// pageMemory returns memory to receive datagrams into. With a daemon it is a region, which the
// daemon maps too. With an embedded NIC, large memory is a mapping outside Go's heap, because it
// would be most of the heap.
func pageMemory(p *weft.Process, n int) (mem []byte, unmap func() error, err error) {
	if p.NIC() != nil && n >= mapped {
		return mapMemory(n)
	}
	if err := refusal.Memory(int64(n)); err != nil {
		return nil, nil, err
	}
	region, err := p.Alloc(n)
	if err != nil {
		return nil, nil, err
	}
	if err := refusal.Commit(region.Bytes()); err != nil {
		return nil, nil, errors.Join(err, region.Close())
	}
	return region.Bytes(), region.Close, nil
}

// aligned returns the memory from the first multiple of n on. n is a power of two.
func aligned(mem []byte, n int) []byte {
	return mem[-uintptr(unsafe.Pointer(unsafe.SliceData(mem)))&uintptr(n-1):]
}

// begin creates the driver with its module and starts run. If it fails, it closes the port and
// frees its memory.
func (o *port) begin(pageBytes int, id hsn.ModuleID, m hsn.Module) error {
	cfg := hsn.Config{Host: uint64(o.p.Address().NIC), PageBytes: pageBytes, Buffers: portBuffers, Slots: portSlots,
		Pending: 1024, Defect: o.defect}
	cfg.Modules[id] = m
	var err error
	o.mu.Lock()
	o.driver, err = hsn.New(cfg, (*datagrams)(o), o.pool)
	o.mu.Unlock()
	if err != nil {
		o.close()
		o.release()
		return err
	}
	o.p.Runtime().Go(o.run)
	return nil
}

func (o *port) now() clock.Time { return clock.Time(o.p.Runtime().Now().Sub(o.begun)) }

// sentBeside finishes the sends in a goroutine of its own. run may wait long for a packet, and the
// memory of finished sends would be held meanwhile. The lock is held.
func (o *port) sentBeside() {
	if o.drains || o.driver.Idle() {
		return
	}
	o.drains = true
	o.p.Runtime().Go(func() {
		for o.p.Runtime().Sleep(o.ctx, sendPause) == nil {
			o.mu.Lock()
			o.driver.Output()
			o.drains = !o.driver.Idle()
			again := o.drains
			o.mu.Unlock()
			if !again {
				return
			}
		}
	})
}

// fail records the first reason for the end of the port. The lock is held.
func (o *port) fail(err error) {
	if o.err == nil {
		o.err = err
		o.failed.Store(true)
	}
}

// end records why the port has ended and wakes all waiters.
func (o *port) end(err error) {
	o.mu.Lock()
	o.fail(err)
	o.mu.Unlock()
	o.p.Runtime().Wake()
}

// close ends the port. Its memory is freed when no operation and no call uses it. The reason is
// recorded before run is stopped, because run would record the end of its context instead.
func (o *port) close() {
	o.mu.Lock()
	o.fail(weft.ErrClosed)
	for _, r := range o.recvs {
		r.op.Cancel()
	}
	o.mu.Unlock()
	o.stop()
	_ = o.own.Close()
	o.p.Runtime().Wake()
}

// releasing is the time for which a port waits for operations that use its memory. After that the
// port keeps the memory: a region until the process ends, a mapping until the program ends.
const releasing = time.Second

// release waits until the operations have ended, so that the process has their contexts back. It
// then frees the memory. No operation can start any more, because the port has failed and takeIn
// has seen that. release must not hold the lock while it waits.
func (o *port) release() {
	o.mu.Lock()
	recvs, sent := slices.Clone(o.recvs), slices.Clone(o.sent)
	o.mu.Unlock()
	ctx, cancel := o.p.Runtime().WithTimeout(context.Background(), releasing)
	defer cancel()
	ended := func(op *weft.Op) bool {
		op.Cancel()
		_, err := op.Wait(ctx)
		return err == nil || ctx.Err() == nil
	}
	for i := range o.sends {
		if sent[i] && !ended(&o.sends[i]) {
			return
		}
	}
	for _, r := range recvs {
		if !ended(&r.op) {
			return
		}
	}
	for o.held() {
		if o.p.Runtime().Sleep(ctx, sendPause) != nil {
			return
		}
	}
	err := o.unmap()
	o.mu.Lock()
	o.returned = err == nil
	o.mu.Unlock()
}

// held reports whether a file or a call uses the port's memory.
func (o *port) held() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lent.Load() > 0 || o.looks != nil && o.looks()
}

// datagrams is the interface below the driver. The port's lock is held in its methods.
type datagrams port

// Send starts to send a packet from a slot. It reports whether the queue had room.
func (d *datagrams) Send(slot int, to hsn.Host, data, headers []byte) bool {
	at := weft.Address{NIC: weft.NICID(to.NIC), Slot: to.Slot, Generation: to.Gen}
	err := d.own.PeerAt(at).StartSendDatagram(&d.sends[slot], pageTag, data, headers)
	d.sent[slot] = d.sent[slot] || err == nil
	d.unsent = true
	return !errors.Is(err, weft.ErrQueueFull) // after another error the packet counts as lost
}

// Flush makes started packets leave.
func (d *datagrams) Flush() {
	if d.unsent {
		d.unsent = false
		d.own.Flush()
	}
}

// Done reports whether the packet of a slot has left.
func (d *datagrams) Done(slot int) bool {
	_, done, _ := d.sends[slot].Test()
	return done
}

// Receive posts a buffer for a packet, and reports whether it could.
func (d *datagrams) Receive(b *hsn.Buffer) bool {
	var r *receive
	if n := len(d.spare); n > 0 {
		r, d.spare = d.spare[n-1], d.spare[:n-1]
	} else {
		r = new(receive)
	}
	r.b = b
	if d.err != nil || d.own.StartRecvDatagram(&r.op, pageTag, b.Page, b.Rest) != nil {
		d.spare = append(d.spare, r)
		return false
	}
	d.recvs = append(d.recvs, r)
	return true
}

// Next returns the next buffer with a packet.
func (d *datagrams) Next() (b *hsn.Buffer, n int, from hsn.Host, ok bool) {
	if len(d.recvs) == 0 {
		return nil, 0, from, false
	}
	r := d.recvs[0]
	m, done, err := r.op.Test()
	if !done {
		return nil, 0, from, false
	}
	d.recvs = append(d.recvs[:0], d.recvs[1:]...)
	if err != nil && !errors.Is(err, weft.ErrTruncated) {
		(*port)(d).fail(err)
		return nil, 0, from, false
	}
	from = hsn.Host{NIC: uint64(m.Addr.NIC), Slot: m.Addr.Slot, Gen: m.Addr.Generation}
	if len(d.names) >= portNames {
		clear(d.names)
	}
	d.names[from] = m.From
	if r != d.pump.watched {
		d.spare = append(d.spare, r)
	}
	return r.b, m.Full, from, true
}
