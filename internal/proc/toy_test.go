package proc

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// toy is a NIC of which only the VNI half is real. The processes that it serves reach one another
// at once and in order. Some names are special: the process "silent/…" takes messages and never
// answers, and "gone/…" has ended.
type toy struct {
	mu    sync.Mutex
	procs []*toyProc

	blind bool // does not read the queues
}

type toyProc struct {
	nic     *vni.NIC
	seg     *vni.Segment
	id      vni.Identity
	wake    func()
	regions map[uint32][]byte
	posted  []*toyRecv
	stray   []toyMsg
	held    map[int]vni.SendContext
	flows   []*toyFlow
	flown   []byte           // of the operation that just received its last bytes
	codes   map[vni.Code]int // commands served
	refused int              // replies without a call
}

type toyMsg struct {
	c    vni.Completion
	data []byte
	re   bool
}

type toyRecv struct {
	ctx int
	c   vni.ReceiveContext
}

const toyNIC = 0x60dd7fff8c

func (n *toy) poll() (work int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.blind {
		return 0
	}
	for _, p := range n.procs {
		for c, ok := p.nic.Next(); ok; c, ok = p.nic.Next() {
			p.codes[c.Code]++
			n.serve(p, c)
			work++
		}
		for _, f := range slices.Clone(p.flows) {
			if !f.waits {
				work += f.advance()
			}
		}
	}
	return work
}

func (n *toy) serve(p *toyProc, c vni.Command) {
	i := int(c.Context)
	switch c.Code {
	case vni.CodeReceive:
		var rc vni.ReceiveContext
		err := p.nic.Receive(i, &rc)
		must(err)
		r := &toyRecv{i, rc}
		for k, m := range p.stray {
			if r.wants(&m) {
				p.stray = append(p.stray[:k], p.stray[k+1:]...)
				p.deliver(r, m)
				return
			}
		}
		p.posted = append(p.posted, r)
	case vni.CodeCancel:
		n.cancel(p, i, c.Size)
	case vni.CodeRefill:
		for _, f := range p.flows {
			if f.ctx == i && f.receive == (c.Size == vni.CancelReceive) {
				f.waits = false
			}
		}
	default:
		var sc vni.SendContext
		err := p.nic.Send(i, &sc)
		must(err)
		n.send(p, i, c.Code, sc)
	}
}

func (n *toy) cancel(p *toyProc, i int, list uint32) {
	if list == vni.CancelSend {
		if _, ok := p.held[i]; ok {
			delete(p.held, i)
			p.complete(false, i, &vni.Completion{Status: vni.StatusCancelled})
		}
		return
	}
	for k, r := range p.posted {
		if r.ctx == i {
			p.posted = append(p.posted[:k], p.posted[k+1:]...)
			p.complete(true, i, &vni.Completion{Status: vni.StatusCancelled})
			return
		}
	}
}

func (n *toy) send(p *toyProc, i int, code vni.Code, sc vni.SendContext) {
	app := sc.Receiver.String()
	switch {
	case app == "silent/0":
		p.held[i] = sc
		return
	case app == "gone/0":
		p.complete(false, i, &vni.Completion{Status: vni.StatusProcessGone})
		return
	}
	if sc.Flags&vni.Refilled != 0 && code != vni.CodeGet {
		f := &toyFlow{p: p, ctx: i, size: sc.Len, in: true}
		f.then = func() {
			sc.Flags &^= vni.Refilled
			p.flown = f.data
			n.send(p, i, code, sc)
			p.flown = nil
		}
		p.flows = append(p.flows, f)
		return
	}
	if code == vni.CodePut || code == vni.CodeGet {
		n.remote(p, i, code, sc)
		return
	}
	q := n.find(&sc)
	if q == nil && code == vni.CodeResolve {
		p.held[i] = sc
		return
	}
	status := vni.StatusOK
	switch {
	case q == nil:
		status = vni.StatusNameUnknown
	case sc.Gen != 0 && sc.Gen != q.id.Gen:
		status = vni.StatusStaleGeneration
	case code == vni.CodeResolve:
		p.complete(false, i, &vni.Completion{NIC: q.id.NIC, Slot: q.id.Slot, Gen: q.id.Gen})
		return
	default:
		var data []byte
		if code == vni.CodeSendShort {
			data = append(data, p.nic.Inline(i, int(sc.Len))...)
		} else {
			for _, b := range p.memory(false, i, sc.PoolIndex, sc.Size, sc.Len) {
				data = append(data, b...)
			}
		}
		q.arrive(toyMsg{vni.Completion{
			Tag: sc.Tag, Token: sc.Token, From: p.id.Name, NIC: p.id.NIC, Slot: p.id.Slot, Gen: p.id.Gen, Full: sc.Len,
		}, data, sc.Flags&vni.IsReply != 0})
	}
	p.complete(false, i, &vni.Completion{Status: status, Len: sc.Len})
}

func (n *toy) find(sc *vni.SendContext) *toyProc {
	for _, q := range n.procs {
		if sc.NIC != 0 && sc.NIC == q.id.NIC && sc.Slot == q.id.Slot || sc.NIC == 0 && sc.Receiver == q.id.Name {
			return q
		}
	}
	return nil
}

func (n *toy) remote(p *toyProc, i int, code vni.Code, sc vni.SendContext) {
	mem, status := n.far(sc)
	switch {
	case status != vni.StatusOK:
	case code == vni.CodeGet && sc.Flags&vni.Refilled != 0:
		p.flows = append(p.flows, &toyFlow{p: p, ctx: i, size: sc.Len, data: slices.Clone(mem), then: func() {
			p.complete(false, i, &vni.Completion{Len: sc.Len})
		}})
		return
	default:
		for _, b := range p.memory(false, i, sc.PoolIndex, sc.Size, sc.Len) {
			if code == vni.CodePut {
				copy(mem, b)
			} else {
				copy(b, mem)
			}
			mem = mem[len(b):]
		}
	}
	p.complete(false, i, &vni.Completion{Status: status})
}

// far returns the memory that a PUT or GET names.
func (n *toy) far(sc vni.SendContext) ([]byte, vni.Status) {
	q := n.procs[sc.Remote.Slot]
	mem := q.regions[sc.Remote.Region]
	switch {
	case mem == nil:
		return nil, vni.StatusBadRegion
	case sc.Remote.Key != toyKey(sc.Remote.Region):
		return nil, vni.StatusBadKey
	case sc.Remote.Offset+sc.Len > uint64(len(mem)):
		return nil, vni.StatusOutOfRange
	}
	return mem[sc.Remote.Offset:][:sc.Len], vni.StatusOK
}

// toyFlow is the flow of bytes into or out of memory that a process refills.
type toyFlow struct {
	p         *toyProc
	receive   bool
	in        bool // into the NIC's memory
	waits     bool // waits for a Refill after an empty descriptor
	ctx       int
	size      uint64 // bytes of the memory that the process describes
	described uint64
	taken     uint32
	data      []byte // bytes that have come in, or must still go out
	then      func()
}

func (f *toyFlow) advance() (work int) {
	for f.described < f.size && (f.in || len(f.data) > 0) {
		d, ok, err := f.p.nic.Descriptor(f.receive, f.ctx, f.taken)
		must(err)
		if f.waits = !ok; f.waits {
			return work
		}
		mem := f.p.seg.Pool()
		if d.Region != vni.PoolRegion {
			mem = f.p.regions[d.Region]
		}
		mem = mem[d.Offset:][:d.Len]
		if f.in {
			f.data = append(f.data, mem...)
		} else {
			f.data = f.data[copy(mem, f.data):]
		}
		f.described += d.Len
		if f.in || len(f.data) > 0 || f.described == f.size { // the last one may have room left
			f.p.nic.Consume(f.receive, f.ctx, f.taken)
		}
		f.taken++
		f.p.nic.Took(f.receive, f.ctx)
		if f.p.nic.Sleeping() {
			f.p.wake()
		}
		work++
	}
	f.p.flows = slices.DeleteFunc(f.p.flows, func(x *toyFlow) bool { return x == f })
	f.then()
	return work + 1
}

func toyKey(region uint32) uint64 { return uint64(region)<<32 | 0xabc }

func (p *toyProc) memory(receive bool, i int, pool int32, size uint32, length uint64) (parts [][]byte) {
	if p.flown != nil {
		return [][]byte{p.flown}
	}
	if pool != vni.NoPool {
		return [][]byte{p.seg.Pool()[int(pool)*limits.PageBytes:][:length]}
	}
	if d := p.nic.Direct(receive, i); d != nil {
		return d
	}
	ds, err := p.nic.Descriptors(receive, i, int(size), nil)
	must(err)
	for _, d := range ds {
		parts = append(parts, p.regions[d.Region][d.Offset:][:d.Len])
	}
	return parts
}

func (r *toyRecv) wants(m *toyMsg) bool {
	return vni.TagsOf(r.c.Tag, r.c.Flags&vni.AnyTag != 0).Take(m.c.Tag) && (r.c.Flags&vni.IsReply != 0) == m.re &&
		(r.c.NIC != 0 && r.c.NIC == m.c.NIC && r.c.Slot == m.c.Slot || r.c.NIC == 0 && (r.c.Sender.IsZero() || r.c.Sender == m.c.From))
}

func (p *toyProc) arrive(m toyMsg) {
	for k, r := range p.posted {
		if r.wants(&m) {
			p.posted = append(p.posted[:k], p.posted[k+1:]...)
			p.deliver(r, m)
			return
		}
	}
	if m.re {
		p.refused++
		return
	}
	p.stray = append(p.stray, m)
}

func (p *toyProc) deliver(r *toyRecv, m toyMsg) {
	if r.c.Flags&vni.Refilled != 0 {
		f := &toyFlow{p: p, receive: true, ctx: r.ctx, size: r.c.Len, data: m.data}
		f.then = func() {
			m.c.Len = min(uint64(len(m.data)), r.c.Len)
			if m.c.Len < uint64(len(m.data)) {
				m.c.Status = vni.StatusTruncated
			}
			p.complete(true, r.ctx, &m.c)
		}
		p.flows = append(p.flows, f)
		return
	}
	rest := m.data
	for _, b := range p.memory(true, r.ctx, r.c.PoolIndex, r.c.Size, r.c.Len) {
		rest = rest[copy(b, rest):]
	}
	m.c.Len = uint64(len(m.data) - len(rest))
	if len(rest) > 0 {
		m.c.Status = vni.StatusTruncated
	}
	p.complete(true, r.ctx, &m.c)
}

func (p *toyProc) complete(receive bool, i int, c *vni.Completion) {
	must(p.nic.Complete(receive, i, c, true))
	if p.nic.Sleeping() {
		p.wake()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Alloc and Free make toyMemory the Memory of a process.
type toyMemory struct {
	n           *toy
	p           *toyProc
	next        uint32
	busy        bool
	enter, gate chan struct{} // if not nil, Alloc reports its call, and waits
}

func (m *toyMemory) Alloc(n int, _ bool) (uint32, uint64, []byte, error) {
	if m.gate != nil {
		m.enter <- struct{}{}
		<-m.gate
	}
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	if n > 64<<20 {
		return 0, 0, nil, fmt.Errorf("toy: no room for %d bytes", n)
	}
	m.next++
	m.p.regions[m.next] = make([]byte, n)
	return m.next, toyKey(m.next), m.p.regions[m.next], nil
}

func (m *toyMemory) Register(mem []byte, _ *File, _ bool) (uint32, uint64, error) {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	m.next++
	m.p.regions[m.next] = mem
	return m.next, toyKey(m.next), nil
}

func (m *toyMemory) Part(of uint32, offset, n int, _ bool) (uint32, uint64, error) {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	m.next++
	m.p.regions[m.next] = m.p.regions[of][offset : offset+n]
	return m.next, toyKey(m.next), nil
}

func (m *toyMemory) Free(id uint32) error {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	if m.busy {
		return fmt.Errorf("toy: region %d is busy", id)
	}
	delete(m.p.regions, id)
	return nil
}

// polling waits by polling the NIC itself, like an embedded process.
type polling struct {
	n     *toy
	kicks atomic.Int32
	gone  atomic.Bool
}

func (w *polling) Wait(ctx context.Context, ready func() bool) error {
	for {
		if ready() {
			return nil
		}
		if w.gone.Load() {
			return ErrNICGone
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.n.poll() == 0 {
			runtime.Gosched()
		}
	}
}

func (w *polling) Kick() { w.kicks.Add(1) }
func (w *polling) Wake() {}

// parking waits as an attached process does: it announces that it sleeps, checks once more, and
// relies on a wake-up. The NIC has its own goroutine, which stops listening and relies on a kick.
type parking struct {
	vp   *vni.Process
	kick chan struct{}

	mu       sync.Mutex
	sleepers map[chan struct{}]bool
}

func (w *parking) Wait(ctx context.Context, ready func() bool) error {
	woken := make(chan struct{}, 1)
	w.mu.Lock()
	w.sleepers[woken] = true
	w.vp.SetSleeping(true)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		if delete(w.sleepers, woken); len(w.sleepers) == 0 {
			w.vp.SetSleeping(false)
		}
		w.mu.Unlock()
	}()
	for !ready() {
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (w *parking) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.sleepers {
		select {
		case s <- struct{}{}:
		default:
		}
	}
}

func (w *parking) Kick() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// run serves the toy's processes until stop is closed.
func (n *toy) run(kick, stop chan struct{}) {
	for {
		for n.poll() > 0 {
		}
		leave := true
		for _, p := range n.procs {
			leave = p.nic.StopListening() && leave
		}
		if !leave {
			continue
		}
		select {
		case <-kick:
			for _, p := range n.procs {
				p.nic.Listen()
			}
		case <-stop:
			return
		}
	}
}

var smallGeometry = vni.Geometry{Commands: 40, Contexts: 4, Descriptors: 4, PoolPages: 8}

// join registers another process, "app/<n>", at the toy.
func (n *toy) join(t testing.TB, g vni.Geometry, direct bool, w func(*vni.Process, *toyProc) Waiter, opts Options) (*Process, *toyProc) {
	t.Helper()
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(vni.AlignedBytes(rw), vni.AlignedBytes(ro), g)
	if err != nil {
		t.Fatal(err)
	}
	if direct {
		seg.EnableDirect()
	}
	name, err := vni.MakeName("app", uint32(len(n.procs)))
	if err != nil {
		t.Fatal(err)
	}
	q := &toyProc{
		nic: seg.NIC(), seg: seg, id: vni.Identity{NIC: toyNIC, Slot: uint16(len(n.procs)), Gen: 3, Name: name}, wake: func() {},
		regions: map[uint32][]byte{}, held: map[int]vni.SendContext{}, codes: map[vni.Code]int{},
	}
	q.nic.SetIdentity(q.id)
	q.nic.Listen()
	p, err := New(seg, w(seg.Process(), q), &toyMemory{n: n, p: q}, opts)
	if err != nil {
		t.Fatal(err)
	}
	n.procs = append(n.procs, q)
	return p, q
}

// pair returns two processes at one toy, which they poll themselves.
func pair(t testing.TB, g vni.Geometry, direct bool) (n *toy, a, b *Process) {
	n = &toy{}
	w := func(*vni.Process, *toyProc) Waiter { return &polling{n: n} }
	a, _ = n.join(t, g, direct, w, Options{})
	b, _ = n.join(t, g, direct, w, Options{})
	return n, a, b
}

// parkedPair returns two processes and a NIC, which all sleep whenever they can.
func parkedPair(t testing.TB, g vni.Geometry, direct bool) (n *toy, a, b *Process) {
	n = &toy{}
	kick, stop, stopped := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	w := func(vp *vni.Process, q *toyProc) Waiter {
		w := &parking{vp: vp, kick: kick, sleepers: map[chan struct{}]bool{}}
		q.wake = w.Wake
		return w
	}
	a, _ = n.join(t, g, direct, w, Options{})
	b, _ = n.join(t, g, direct, w, Options{})
	go func() {
		defer close(stopped)
		n.run(kick, stop)
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return n, a, b
}

func app(t testing.TB, s string) Dest {
	t.Helper()
	n, err := vni.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return To(n)
}
