package nic

import (
	"bytes"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
)

// fabric is some engines on one switch, which advance together in virtual time.
type fabric struct {
	t       testing.TB
	now     clock.Time
	sw      *mem.Switch
	engines []*Engine
	faults  []*fault.Driver
	stepBy  func() // replaces a poll of every engine
	steps   int
	alone   bool // allocations are counted: no audit
}

func newFabric(t testing.TB, nics int, faults fault.Config) *fabric {
	return newWideFabric(t, 1472, nics, faults)
}

// roomy makes a NIC announce a large receive capacity.
func roomy(c *Config) { c.ReceiveCapacity = limits.RoomyCapacity }

// newWideFabric is newFabric with frames of another length.
func newWideFabric(t testing.TB, mtu, nics int, faults fault.Config, change ...func(*Config)) *fabric {
	f := &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: mtu})}
	for i := range nics {
		f.addNIC(uint64(i+1), 1, faults, change...)
	}
	for i, e := range f.engines {
		for j := range i {
			if err := e.AddNode(uint64(j+1), mem.Address(j+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.until(5*time.Second, "every NIC knows every other", func() bool {
		for _, e := range f.engines {
			known := 0
			for _, pr := range e.peers.list {
				if pr.names.Synced() {
					known++
				}
			}
			if known != nics-1 {
				return false
			}
		}
		return true
	})
	return f
}

// newFabricOf is newFabric with links that are reliable, or not, and that show frames before they
// are taken.
func newFabricOf(t testing.TB, nics int, promises bool) *fabric {
	return newWideFabric(t, 1472, nics, fault.Config{}, func(c *Config) {
		if !promises {
			c.Link = promiseless{c.Link.(*mem.Port)}
		}
	})
}

// promiseless is a port that says that it may lose frames.
type promiseless struct{ *mem.Port }

func (promiseless) Properties() link.Properties { return link.Properties{} }

func (f *fabric) addNIC(id, incarnation uint64, faults fault.Config, change ...func(*Config)) *Engine {
	var d link.Driver = f.sw.Port()
	if faults.Seed != 0 {
		faults.Seed += id
		w := fault.Wrap(d, faults)
		f.faults = append(f.faults, w)
		d = w
	}
	cfg := Config{ID: id, Incarnation: incarnation, Secrets: secret.Seeded(id), Link: d, RelaySaves: -1, Belief: Belief{HearsayFromPeers: true}}
	for _, c := range change {
		c(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.engines = append(f.engines, e)
	f.t.Cleanup(func() { tally(e) })
	return e
}

// step polls every engine once and advances the time, to the next deadline if nothing happened.
func (f *fabric) step() {
	if f.stepBy != nil {
		f.stepBy()
		return
	}
	work, next := 0, clock.Never
	for _, e := range f.engines {
		w, n := e.Poll(f.now)
		work += w
		next = clock.Min(next, n)
	}
	if f.steps++; f.steps%auditEvery == 0 && !f.alone {
		f.audit()
	}
	f.now = f.now.Add(time.Microsecond)
	if work == 0 && next > f.now {
		f.now = clock.Min(next, f.now.Add(10*time.Millisecond))
	}
}

// auditEvery is the number of steps between two audits of every engine.
const auditEvery = 16

// audit fails the test if the state of an engine is inconsistent, or if it waits for nothing.
func (f *fabric) audit() {
	f.t.Helper()
	for _, e := range f.engines {
		if e.cfg.Defect != mutate.None {
			continue
		}
		if err := e.Limits(); err != nil {
			f.t.Fatalf("NIC %d at %d: %v", e.ID(), f.now, err)
		}
	}
}

// allocations returns the average number of allocations of the engines in a run, which steps.
func (f *fabric) allocations(runs int, run func()) float64 {
	f.alone = true
	defer func() { f.alone = false }()
	return testing.AllocsPerRun(runs, run)
}

// until steps until ok, for at most d of virtual time.
func (f *fabric) until(d time.Duration, what string, ok func() bool) {
	f.t.Helper()
	end := f.now.Add(d)
	for !ok() {
		if f.now > end {
			f.t.Fatalf("%s: not within %v of virtual time", what, d)
		}
		f.step()
	}
}

// tester is a minimal process half: it posts and looks at doorbells.
type tester struct {
	f     *fabric
	e     *Engine
	name  vni.Name
	v     *vni.Process
	seg   *vni.Segment
	slot  uint16
	gen   uint32
	uses  [limits.Contexts]uint32
	wakes int
	list  []byte // receivers of the last multicast

	newAt   int   // position of its New_Process
	heard   bool  // that command has been answered
	refused error // the error of the answer
}

// claimed reports whether its registration has ended.
func (p *tester) claimed() bool {
	if r, ok := p.e.Driver().Answered(p.newAt); ok && !p.heard {
		p.heard, p.gen, p.refused = true, r.Gen, r.Err
	}
	return p.heard
}

func (f *fabric) process(nic int, name string) *tester {
	f.t.Helper()
	p := f.claim(nic, name)
	f.until(5*time.Second, name+" has its name", p.claimed)
	if p.refused != nil {
		f.t.Fatal(p.refused)
	}
	return p
}

// claim starts a process whose registration ends later.
func (f *fabric) claim(nic int, name string) *tester {
	f.t.Helper()
	n, err := vni.ParseName(name)
	if err != nil {
		f.t.Fatal(err)
	}
	seg := f.segment()
	p := &tester{f: f, e: f.engines[nic], name: n, v: seg.Process(), seg: seg}
	if p.slot, p.newAt, err = ask(p.e, n, seg, func() { p.wakes++ }); err != nil {
		f.t.Fatal(err)
	}
	return p
}

// ask posts a New_Process, and has it executed at once.
func ask(e *Engine, name vni.Name, seg *vni.Segment, wakeUp func()) (slot uint16, at int, err error) {
	d := e.Driver()
	slot, ok := d.Take(1)
	if !ok {
		return 0, 0, driver.ErrNoSlot
	}
	d.Tie(slot, driver.Entry{VNI: seg, WakeUp: wakeUp})
	return slot, post(e, driver.Command{Code: driver.NewProcess, Index: slot, PID: 1, Name: name}), nil
}

func post(e *Engine, c driver.Command) (at int) {
	at, ok := e.Driver().Post(c)
	if !ok {
		panic("the driver command queue is full")
	}
	e.drive()
	return at
}

// command posts a driver command that is answered at once.
func command(e *Engine, c driver.Command) driver.Result {
	r, ok := e.Driver().Answered(post(e, c))
	if !ok {
		panic(fmt.Sprintf("%v is not answered", c.Code))
	}
	return r
}

// register registers a process with an engine.
func (f *fabric) register(e *Engine, name vni.Name, seg *vni.Segment, wakeUp func()) (slot uint16, gen uint32, err error) {
	slot, at, err := ask(e, name, seg, wakeUp)
	if err != nil {
		return 0, 0, err
	}
	r, ok := e.Driver().Answered(at)
	if !ok {
		f.until(5*time.Second, fmt.Sprintf("%v is answered", name), func() bool {
			r, ok = e.Driver().Answered(at)
			return ok
		})
	}
	if r.Err != nil {
		e.Driver().GiveBack(slot)
	}
	return slot, r.Gen, r.Err
}

// unregister deletes a process from an engine.
func unregister(e *Engine, slot uint16) {
	command(e, driver.Command{Code: driver.DeleteProcess, Index: slot})
	e.Driver().GiveBack(slot)
}

// exit ends a process.
func (p *tester) exit() { unregister(p.e, p.slot) }

// segment makes a VNI of the default geometry.
func (f *fabric) segment() *vni.Segment {
	f.t.Helper()
	g := vni.DefaultGeometry(true)
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(words(rw), words(ro), g)
	if err != nil {
		f.t.Fatal(err)
	}
	seg.EnableDirect()
	return seg
}

func words(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), n)
}

func (p *tester) post(c vni.Command) {
	p.f.t.Helper()
	for !p.v.Post(c) {
		p.f.step()
	}
	if !p.v.Listening() {
		p.e.Ring(p.slot)
	}
}

// send starts a send to a name and returns its context.
func (p *tester) send(to string, tag uint64, flags uint32, data []byte) int {
	p.f.t.Helper()
	n, err := vni.ParseName(to)
	if err != nil {
		p.f.t.Fatal(err)
	}
	return p.start(vni.CodeSend, &vni.SendContext{Receiver: n, Tag: tag, Flags: flags | vni.WantNotify}, data)
}

func (p *tester) start(code vni.Code, c *vni.SendContext, data []byte) int {
	p.f.t.Helper()
	return p.startSized(code, 0, c, data)
}

// startSized is start for a command with a size.
func (p *tester) startSized(code vni.Code, size uint32, c *vni.SendContext, parts ...[]byte) int {
	p.f.t.Helper()
	i, ok := p.v.TakeSend()
	for !ok {
		p.f.step()
		i, ok = p.v.TakeSend()
	}
	p.uses[i]++
	c.Token = p.uses[i]<<16 | uint32(i)
	c.Len, c.PoolIndex = 0, vni.NoPool
	for _, b := range parts {
		c.Len += uint64(len(b))
	}
	p.v.SetSend(i, c)
	p.v.SetDirect(false, i, parts)
	p.post(vni.Command{Code: code, Context: uint16(i), Size: size})
	return i
}

// recv posts a receive and returns its context. An empty name is any process.
func (p *tester) recv(from string, tag uint64, flags uint32, buf []byte) int {
	p.f.t.Helper()
	c := &vni.ReceiveContext{Tag: tag, Flags: flags | vni.WantNotify, Len: uint64(len(buf)), PoolIndex: vni.NoPool}
	if from != "" {
		n, err := vni.ParseName(from)
		if err != nil {
			p.f.t.Fatal(err)
		}
		c.Sender = n
	}
	i, ok := p.v.TakeReceive()
	if !ok {
		p.f.t.Fatal("no receive context is free")
	}
	p.v.SetReceive(i, c)
	p.v.SetDirect(true, i, [][]byte{buf})
	p.post(vni.Command{Code: vni.CodeReceive, Context: uint16(i)})
	return i
}

func (p *tester) done(receive bool, i int) bool { return p.v.Doorbell(receive, i) == vni.Done }

// finish waits for a context and returns its completion.
func (p *tester) finish(receive bool, i int) vni.Completion {
	p.f.t.Helper()
	p.f.until(20*time.Second, fmt.Sprintf("%v: context %d", p.name, i), func() bool { return p.done(receive, i) })
	c := p.v.Completion(receive, i)
	p.v.Release(receive, i)
	return c
}

func (p *tester) wantSent(i int) {
	p.f.t.Helper()
	if c := p.finish(false, i); c.Status != vni.StatusOK {
		p.f.t.Fatalf("send of %v ended with %v", p.name, c.Status)
	}
}

func (p *tester) wantReceived(i int, buf, want []byte) vni.Completion {
	p.f.t.Helper()
	c := p.finish(true, i)
	if c.Status != vni.StatusOK || c.Full != uint64(len(want)) || !bytes.Equal(buf[:c.Len], want) {
		p.f.t.Fatalf("receive of %v ended with %v, %d of %d bytes, equal: %v; expected %d bytes", p.name, c.Status, c.Len, c.Full,
			bytes.Equal(buf[:c.Len], want), len(want))
	}
	return c
}

// noLeaks lets the fabric come to rest, and fails the test if an engine still holds anything.
func (f *fabric) noLeaks() {
	f.t.Helper()
	end := f.now.Add(2 * time.Second)
	for f.now < end {
		f.step()
	}
	probes := make([]uint64, len(f.engines))
	for i, e := range f.engines {
		probes[i] = e.Count(vni.RelProbeSends)
	}
	for end := f.now.Add(time.Second); f.now < end; {
		f.step()
	}
	f.audit()
	for i, e := range f.engines {
		// Every Watch(1) has had its Watch(-1); a look costs one probe.
		if n := e.Count(vni.RelProbeSends) - probes[i]; n > uint64(len(f.engines)) {
			f.t.Errorf("NIC %d: probes its peers, %d times a second, though nothing depends on them", e.ID(), n)
		}
		for _, l := range e.Leaks() {
			f.t.Error(l)
		}
	}
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// homed returns a name whose home is a given NIC.
func (f *fabric) homed(nic int) string {
	for i := range 1000 {
		text := fmt.Sprintf("app/%d", i)
		name, err := vni.ParseName(text)
		if err != nil {
			f.t.Fatal(err)
		}
		if f.engines[nic].names.Home(name) == nil {
			return text
		}
	}
	f.t.Fatalf("NIC %d is no name's home", nic)
	return ""
}

// known waits until every NIC knows these names.
func (f *fabric) known(names ...string) {
	f.t.Helper()
	f.until(5*time.Second, fmt.Sprint(names, " known"), func() bool {
		for _, e := range f.engines {
			for _, s := range names {
				n, err := vni.ParseName(s)
				if _, ok := e.Lookup(n); err != nil || !ok {
					return false
				}
			}
		}
		return true
	})
}
