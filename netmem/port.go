package netmem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
)

// pageTag is the tag of the datagrams with pages.
const pageTag weft.Tag = 0x7061676573

// port is the page driver of a process: its interface are the process's datagrams. A goroutine of its own takes in what comes; whoever
// sends takes the lock.
type port struct {
	p      *weft.Process
	begun  time.Time
	region *weft.Region
	pool   *hsn.Pool
	stop   context.CancelFunc
	ctx    context.Context

	mu     sync.Mutex
	driver *hsn.Driver
	sends  []weft.Op // by slot
	recvs  []*receive
	spare  []*receive
	names  map[hsn.Host]weft.Name // who has sent lately
	err    error                  // why nothing comes any more
}

// receive is a buffer in which a datagram is awaited.
type receive struct {
	op weft.Op
	b  *hsn.Buffer
}

const (
	portBuffers = 32 // in the receive queue
	portSlots   = 16
	portNames   = 4096
)

// ports has the processes that have one: their datagrams with pages all come to it.
var ports sync.Map

// newPort makes a driver with so many pages beside those of the receive queue. begin starts it.
func newPort(p *weft.Process, pageBytes, pages int) (*port, error) {
	if _, taken := ports.LoadOrStore(p, true); taken {
		return nil, fmt.Errorf("netmem: process %v has a server or a client already; expected one with neither", p.Name())
	}
	pages += portBuffers
	region, err := p.Alloc(pages*(pageBytes+hsn.RestBytes) + pageBytes)
	if err != nil {
		ports.Delete(p)
		return nil, fmt.Errorf("netmem: %d pages of %d bytes: %w", pages, pageBytes, err)
	}
	mem := region.Bytes()
	mem = mem[-uintptr(unsafe.Pointer(&mem[0]))&uintptr(pageBytes-1):]
	n := pages * pageBytes
	o := &port{p: p, begun: p.Now(), region: region, pool: hsn.NewPool(pageBytes, mem[:n:n], mem[n:n+pages*hsn.RestBytes]), names: map[hsn.Host]weft.Name{}}
	o.sends = make([]weft.Op, portSlots)
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o, nil
}

// begin makes the driver with its module and has it run.
func (o *port) begin(pageBytes int, id hsn.ModuleID, m hsn.Module) error {
	cfg := hsn.Config{Host: uint64(o.p.Address().NIC), PageBytes: pageBytes, Buffers: portBuffers, Slots: portSlots, Pending: 1024}
	cfg.Modules[id] = m
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.driver, err = hsn.New(cfg, (*datagrams)(o), o.pool); err != nil {
		return err
	}
	o.p.Go(o.run)
	return nil
}

func (o *port) now() clock.Time { return clock.Time(o.p.Now().Sub(o.begun)) }

// run takes in packets until the port is closed, or the process.
func (o *port) run() {
	defer ports.Delete(o.p)
	for {
		o.mu.Lock()
		more := o.driver.Interrupt(o.now())
		var first *receive
		if len(o.recvs) > 0 {
			first = o.recvs[0]
		}
		idle, next, err := o.driver.Idle(), o.driver.Next(), o.err
		o.mu.Unlock()
		if err == nil && !more {
			err = o.await(first, idle, next)
		}
		if err != nil {
			o.end(err)
			return
		}
	}
}

// sendPause is after what time a port looks again whether what it sends has left.
const sendPause = 100 * time.Microsecond

// await waits for the next packet, or for what else the driver has to do.
func (o *port) await(first *receive, idle bool, next clock.Time) error {
	wait := time.Duration(0)
	switch {
	case !idle || first == nil:
		wait = sendPause
	case next != clock.Never:
		wait = max(next.Sub(o.now()), 0) + 1
	}
	ctx := o.ctx
	if wait > 0 {
		within, cancel := o.p.WithTimeout(ctx, wait)
		defer cancel()
		ctx = within
	}
	if first == nil {
		return o.p.Sleep(o.ctx, wait)
	}
	_, err := first.op.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) && o.ctx.Err() == nil {
		return nil
	}
	return err
}

// end notes why nothing comes any more, and wakes all that wait for it.
func (o *port) end(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.mu.Unlock()
	o.p.Wake()
}

// close ends the port. Its memory goes with its process.
func (o *port) close() {
	o.stop()
	o.mu.Lock()
	if o.err == nil {
		o.err = weft.ErrClosed
	}
	recvs := o.recvs
	o.recvs = nil
	o.mu.Unlock()
	for _, r := range recvs {
		r.op.Cancel()
	}
	ports.Delete(o.p)
	o.p.Wake()
}

// datagrams is the interface below the driver. The port's lock is held.
type datagrams port

// Send implements hsn.Interface.
func (d *datagrams) Send(slot int, to hsn.Host, data, headers []byte) bool {
	at := weft.Address{NIC: weft.NICID(to.NIC), Slot: to.Slot, Generation: to.Gen}
	err := d.p.StartSendDatagramInto(&d.sends[slot], at, pageTag, data, headers)
	return !errors.Is(err, weft.ErrQueueFull) // what fails otherwise is lost, as packets may be
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
	if d.err != nil || d.p.StartRecvDatagramInto(&r.op, pageTag, b.Page, b.Rest) != nil {
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
		d.err = err
		return nil, 0, from, false
	}
	from = hsn.Host{NIC: uint64(m.Addr.NIC), Slot: m.Addr.Slot, Gen: m.Addr.Generation}
	if len(d.names) >= portNames {
		clear(d.names)
	}
	d.names[from] = m.From
	d.spare = append(d.spare, r)
	return r.b, m.Full, from, true
}
