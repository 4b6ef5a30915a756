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
)

// Datagrams with pages go from pagePort to pagePort, with one tag.
const (
	pagePort uint16   = 0xff00
	pageTag  weft.Tag = 0
)

// port is the page driver of a process: its interface are the process's datagrams. What takes in packets, pump says; what sends takes the
// lock.
type port struct {
	p      *weft.Process
	defect mutate.PageDefect
	own    *weft.Port // pagePort, which one server or client of a process can have
	begun  time.Time
	pool   *hsn.Pool
	unmap  func() error // gives its memory back: a mapping or a region
	looks  func() bool  // calls look at its memory; nil: none do. It is asked with the lock held
	stop   context.CancelFunc
	ctx    context.Context

	mu       sync.Mutex
	driver   *hsn.Driver
	sends    []weft.Op // by slot
	sent     []bool    // by slot: whether the Op was ever begun
	recvs    []*receive
	spare    []*receive
	names    map[hsn.Host]weft.Name // of the hosts that have sent lately
	err      error                  // why nothing comes any more: see fail
	pump     pump
	wakes    bool // a packet has brought what a call waits for
	late     lateness
	unsent   bool         // packets may not have left
	drains   bool         // what was sent beside run is being seen off
	lent     atomic.Int32 // how often memory of the pool is lent to a file: it stays until it is not
	returned bool         // its memory was given back
	failed   atomic.Bool  // err is set, for calls that must not take the lock: operations are started under it
}

// receive is a buffer in which a datagram is awaited.
type receive struct {
	op weft.Op
	b  *hsn.Buffer
}

const (
	portBuffers = 48 // in the receive queue
	portSlots   = 64 // as many answers as the requests of a bundle: they leave by one system call where the link can do that
	portNames   = 4096
)

// newPort makes the memory of a driver, with so many pages beside those of the receive queue. begin starts it.
func newPort(p *weft.Process, pageBytes, pages int, d mutate.PageDefect) (*port, error) {
	own, err := p.Port(pagePort)
	if errors.Is(err, weft.ErrPortInUse) {
		return nil, fmt.Errorf("netmem: process %v has a server or a client already; expected one with neither: %w", p.Name(), err)
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
	o := &port{p: p, defect: d, own: own, begun: p.Runtime().Now(), unmap: unmap, pool: hsn.NewPool(pageBytes, mem[:n:n], mem[n:n+pages*hsn.RestBytes]), names: map[hsn.Host]weft.Name{}}
	o.sends, o.sent = make([]weft.Op, portSlots), make([]bool, portSlots)
	o.ctx, o.stop = context.WithCancel(context.Background())
	o.pump.free, o.late.look = p.Runtime().NewGate(), p.Runtime().NewGate()
	return o, nil
}

// mapped is from how many bytes on memory for an embedded NIC lies outside of Go's heap. Less is not worth a mapping of its own.
const mapped = 4 << 20

// pageMemory makes memory that datagrams are received into: a region, which a daemon maps too, or, for an embedded NIC, a mapping that
// the collector does not know of, since it would be most of the heap.
func pageMemory(p *weft.Process, n int) (mem []byte, unmap func() error, err error) {
	if p.NIC() != nil && n >= mapped {
		return mapMemory(n)
	}
	region, err := p.Alloc(n)
	if err != nil {
		return nil, nil, err
	}
	return region.Bytes(), region.Close, nil
}

// aligned is the memory from the first multiple of n on, a power of two.
func aligned(mem []byte, n int) []byte {
	return mem[-uintptr(unsafe.Pointer(unsafe.SliceData(mem)))&uintptr(n-1):]
}

// begin makes the driver with its module and has it run. If it fails, the port is closed, and its memory given back.
func (o *port) begin(pageBytes int, id hsn.ModuleID, m hsn.Module) error {
	cfg := hsn.Config{Host: uint64(o.p.Address().NIC), PageBytes: pageBytes, Buffers: portBuffers, Slots: portSlots, Pending: 1024, Defect: o.defect}
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

// sentBeside has what was sent be seen off by another goroutine than run, which may be waiting for a packet that does not come for long:
// the memory of what has left would be held meanwhile. The lock is held.
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

// fail notes the first reason why nothing comes any more. The lock is held.
func (o *port) fail(err error) {
	if o.err == nil {
		o.err = err
		o.failed.Store(true)
	}
}

// end notes why nothing comes any more, and wakes all that wait for it.
func (o *port) end(err error) {
	o.mu.Lock()
	o.fail(err)
	o.mu.Unlock()
	o.p.Runtime().Wake()
}

// close ends the port. Its memory goes as soon as no operation has it, and no call looks at it. The reason is noted before run is
// stopped, which would note its own: that its context has ended.
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

// releasing is for how long a port waits for what has its memory still. If that takes longer, the memory stays: a region until its process
// ends, a mapping until the program does.
const releasing = time.Second

// release sees the operations to their end, so that the process has their contexts back, and then gives back the memory. None begins
// any more, and no call looks at the operations: takeIn has seen that the port has failed, or has let go of the lock before it was taken here. It must not
// hold the lock while it waits.
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

// held reports whether a file or a call has memory of the port's.
func (o *port) held() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lent.Load() > 0 || o.looks != nil && o.looks()
}

// datagrams is the interface below the driver. The port's lock is held.
type datagrams port

// Send implements hsn.Interface.
func (d *datagrams) Send(slot int, to hsn.Host, data, headers []byte) bool {
	at := weft.Address{NIC: weft.NICID(to.NIC), Slot: to.Slot, Generation: to.Gen}
	err := d.own.PeerAt(at).StartSendDatagram(&d.sends[slot], pageTag, data, headers)
	d.sent[slot] = d.sent[slot] || err == nil
	d.unsent = true
	return !errors.Is(err, weft.ErrQueueFull) // what fails otherwise is lost, as packets may be
}

// Flush implements hsn.Interface.
func (d *datagrams) Flush() {
	if d.unsent {
		d.unsent = false
		d.own.Flush()
	}
}

// Done implements hsn.Interface.
func (d *datagrams) Done(slot int) bool {
	_, done, _ := d.sends[slot].Test()
	return done
}

// Receive implements hsn.Interface.
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

// Next implements hsn.Interface.
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
