package nic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
)

// FuzzHostileRings lets a process post rings and runs and overwrite every word of them that it
// can. It writes read positions beyond and before the real one, and the count of a half-read
// record. It writes into a ring while the NIC does, and changes the lengths of messages that are
// being sent. It gives two operations the same memory, cancels full rings, and posts Refills for
// which nothing asked. It may harm only operations in which it takes part (decision 10).
func FuzzHostileRings(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 1, 7, 3, 5, 2, 4, 1, 3, 9, 8, 8, 6, 1}, 30))
	f.Add(bytes.Repeat([]byte{6, 0, 2, 9, 1, 3, 9, 2, 7, 250, 10, 4}, 40))
	f.Fuzz(func(t *testing.T, script []byte) {
		v := newVandals(t, script, mutate.None)
		v.act()
		v.atRest()
	})
}

// vandals is a series of lives of a process that wrecks rings, next to two correct processes.
type vandals struct {
	*fabric
	*vandal
	a, b  *tester
	open  []sending
	lives int
	wild  byte // how often, of 256 times, this life does something for which it is detached
	sent  int
	steps int
}

// sending is a send of a correct process that has not ended.
type sending struct {
	by  *tester
	ctx int
}

const (
	vandalPages    = 8
	vandalContexts = 8
	mostOpen       = 6
	mostLives      = 4
)

func newVandals(t testing.TB, script []byte, d mutate.Defect) *vandals {
	f := newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) { c.Defect, c.InitialCreditBytes = d, 16<<10 })
	v := &vandals{fabric: f, a: f.process(0, "a/0"), b: f.process(1, "b/0"), vandal: &vandal{script: script}}
	v.begin()
	return v
}

// begin begins a life. The one before it may have been detached, and has gone.
func (v *vandals) begin() {
	left := v.script
	v.vandal = newVandalOf(v.fabric, fmt.Sprintf("h/%d", v.lives), vni.Geometry{Commands: 64, Contexts: vandalContexts, Descriptors: 4, PoolPages: vandalPages}, left)
	v.lives++
	v.wild = []byte{0, 2, 8, 40}[v.next()%4]
	v.known("a/0", "b/0", v.vandal.names[0].String())
}

// end ends a life, detached or not. Each poll frees a little of what it leaves behind.
func (v *vandals) end() {
	v.e.TakeDetached()
	at := post(v.e, driver.Command{Code: driver.DeleteProcess, Index: v.slot})
	v.until(time.Second, "the end of a life", func() bool { _, ok := v.e.Driver().Answered(at); return ok })
	v.e.Driver().GiveBack(v.slot)
}

// act plays the script, and continues in another life after a detach.
func (v *vandals) act() {
	for len(v.script) > 0 && v.steps < 600 {
		tolerantly(v.misdeed)
		v.e.Ring(v.slot)
		v.step()
		v.steps++
		v.reap()
		if err := v.a.e.Limits(); err != nil {
			v.t.Fatal(err)
		}
		if v.steps%64 == 0 {
			v.converse(v.steps)
		}
		if v.v.Gone() != 0 && v.lives < mostLives {
			v.end()
			v.begin()
		}
	}
}

// tolerantly runs f and ignores a panic: a vandal may fail on what it has scribbled into its own
// half.
func tolerantly(f func()) {
	defer func() { _ = recover() }()
	f()
}

// dares reports whether it now does something for which it is detached. The less often it does,
// the deeper it gets.
func (v *vandals) dares() bool { return v.next() < v.wild }

// misdeed does one thing to its rings and runs, or one that makes the NIC use them.
func (v *vandals) misdeed() {
	switch v.next() % 16 {
	case 0, 1:
		v.postRing()
	case 2:
		if i := v.underWay(); v.next() < 4*v.wild {
			v.v.SetConsumed(i, v.v.Produced(i)+v.offset(), []uint32{0, 0, 1, 2, 7, 1 << 31, 1<<32 - 1}[v.next()%7])
		}
	case 3: // this once it is honest
		for i := range vandalContexts {
			v.v.SetConsumed(i, v.v.Produced(i), 0)
			v.refill(i)
		}
	case 4:
		v.rewrite()
	case 5:
		v.refill(int(v.next()) % vandalContexts)
	case 6:
		c := vni.Command{Code: vni.CodeCancel, Context: uint16(v.next() % vandalContexts), Size: vni.CancelReceive}
		if v.dares() {
			c.Context, c.Size = uint16(v.next()), uint32(v.next()%4)
		}
		v.v.Post(c)
	case 7:
		v.run()
	case 8: // other operations with the same pages
		v.overlap()
	case 9:
		for i := range vandalContexts {
			for _, receive := range []bool{false, true} {
				if v.v.Doorbell(receive, i) == vni.Done {
					v.v.Release(receive, i)
				}
			}
		}
	default:
		v.feed()
	}
}

// underWay returns a receive context that is in use, if there is one.
func (v *vandals) underWay() int {
	first := int(v.next())
	for i := range vandalContexts {
		if k := (first + i) % vandalContexts; v.v.Doorbell(true, k) == vni.Used {
			return k
		}
	}
	return first % vandalContexts
}

// offset returns how far its claimed read position is from the produced position.
func (v *vandals) offset() uint64 {
	behind := []int64{0, 0, -16, -64, -4096, 16, 64, 1, -1, 4096, 1 << 40, -1 << 40, -1 << 63}
	return uint64(behind[int(v.next())%len(behind)])
}

// postRing posts a ring over some pages of the pool, which other rings may have, too.
func (v *vandals) postRing() {
	i, ok := v.v.TakeReceive()
	if dares := v.dares(); !ok && !dares {
		return
	} else if dares {
		i = int(v.next()) % vandalContexts // perhaps one in use
	}
	pages := 1 + int(v.next())%4
	c := vni.ReceiveContext{Flags: vni.WantNotify | vni.AnyTag, PoolIndex: int32(v.next() % vandalPages), Size: uint32(pages), Len: uint64(pages * limits.PageBytes),
		Most: []uint64{0, 1, 60, 60, 700, 1900, 1 << 28, 1<<64 - 1}[v.next()%8]}
	if v.next()%8 == 0 {
		switch v.next() % 8 {
		case 0:
			c.Len += uint64(v.next())
		case 1:
			c.Len = v.number()
		case 2:
			c.Flags = uint32(v.next())
		case 3:
			c.Size = uint32(v.next())
		case 4:
			c.PoolIndex = int32(v.next()) - 128
		}
	}
	v.v.SetReceive(i, &c)
	if !v.dares() {
		v.v.SetConsumed(i, v.v.Produced(i), 0)
	}
	v.v.Post(vni.Command{Code: vni.CodeReceiveRing, Context: uint16(i)})
}

func (v *vandals) refill(i int) {
	c := vni.Command{Code: vni.CodeRefill, Context: uint16(i), Size: vni.CancelReceive}
	if v.dares() {
		c.Context, c.Size = uint16(v.next()), uint32(v.next()%4)
	}
	v.v.Post(c)
}

// rewrite writes into the pool: over what the NIC has just written there, or over what it is about
// to send.
func (v *vandals) rewrite() {
	pool := v.seg.Pool()
	for range 1 + v.next()%32 {
		at := (int(v.next())<<8 | int(v.next())) * 2 % len(pool)
		binary.LittleEndian.PutUint16(pool[at:], uint16(v.number()))
	}
}

// run posts a run with lengths that are most often right, and that may change before or after the
// NIC has read them.
func (v *vandals) run() {
	i, ok := v.v.TakeSend()
	if !ok {
		return
	}
	page := int(v.next()) % vandalPages
	mem := v.seg.Pool()[page*limits.PageBytes:]
	count, sum := 1+int(v.next())%40, 0
	for k := range count {
		n := int(v.next()) % 80
		binary.LittleEndian.PutUint16(mem[2*k:], uint16(n))
		sum += n
	}
	c := vni.SendContext{Receiver: [3]vni.Name{v.names[0], v.a.name, v.b.name}[v.next()%3], Tag: uint64(v.next() % 3), Flags: vni.WantNotify, Token: 1<<16 | uint32(i),
		PoolIndex: int32(page), Size: uint32(1 + v.next()%2), Len: uint64(2*count + sum)}
	switch v.next() % 32 {
	case 0:
		c.Len += v.number()
	case 1:
		count = int(v.number())
	case 2:
		c.Flags = uint32(v.next())
	}
	v.v.SetSend(i, &c)
	v.v.Post(vni.Command{Code: vni.CodeSendRun, Context: uint16(i), Size: uint32(count)})
	if v.next()%2 == 0 {
		binary.LittleEndian.PutUint16(mem[2*(int(v.next())%40):], uint16(v.number()))
	}
	v.e.Ring(v.slot)
	v.step()
	if v.next()%2 == 0 {
		binary.LittleEndian.PutUint16(mem[2*(int(v.next())%40):], uint16(v.number()))
	}
}

// overlap posts an ordinary receive, or a send, over pages of rings.
func (v *vandals) overlap() {
	page, n := int32(v.next()%vandalPages), uint64(v.next())*60
	if v.next()%2 == 0 {
		if i, ok := v.v.TakeReceive(); ok {
			v.v.SetReceive(i, &vni.ReceiveContext{Flags: vni.WantNotify | vni.AnyTag, PoolIndex: page, Size: 4, Len: n})
			v.v.Post(vni.Command{Code: vni.CodeReceive, Context: uint16(i)})
		}
		return
	}
	if i, ok := v.v.TakeSend(); ok {
		to := [2]vni.Name{v.names[0], v.b.name}[v.next()%2]
		v.v.SetSend(i, &vni.SendContext{Receiver: to, Tag: 1, Flags: vni.WantNotify, Token: 1<<16 | uint32(i), PoolIndex: page, Size: 4, Len: n})
		v.v.Post(vni.Command{Code: vni.CodeSend, Context: uint16(i)})
	}
}

// feed makes a correct process send it something: a short message, a run, or a long message.
func (v *vandals) feed() {
	by := [2]*tester{v.a, v.b}[v.next()%2]
	kind, n := v.next()%4, int(v.next())
	if len(v.open) == mostOpen || by.e.process(by.slot) == nil {
		return
	}
	to := v.names[0].String()
	v.sent++
	if kind == 0 {
		v.open = append(v.open, sending{by, by.sendRun(to, 1, flood(2+n%30))})
		return
	}
	size := n
	if kind == 3 {
		size = 100 * n
	}
	v.open = append(v.open, sending{by, by.send(to, 1, 0, pattern(size, byte(v.sent)))})
}

// reap collects the ended sends of the correct processes.
func (v *vandals) reap() {
	left := v.open[:0]
	for _, s := range v.open {
		if s.by.done(false, s.ctx) {
			s.by.finish(false, s.ctx)
		} else {
			left = append(left, s)
		}
	}
	v.open = left
}

// converse makes the correct processes exchange messages, which the vandal must not hold up.
func (v *vandals) converse(seed int) {
	v.t.Helper()
	for _, n := range []int{10, 9000} {
		there, back := make([]byte, n), make([]byte, n)
		r, q := v.b.recv("a/0", 77, 0, there), v.a.recv("b/0", 78, 0, back)
		s, u := v.a.send("b/0", 77, 0, pattern(n, byte(seed))), v.b.send("a/0", 78, 0, pattern(n, byte(seed+1)))
		v.b.wantReceived(r, there, pattern(n, byte(seed)))
		v.a.wantReceived(q, back, pattern(n, byte(seed+1)))
		v.a.wantSent(s)
		v.b.wantSent(u)
	}
}

// atRest ends the last life, and checks that everything is as if it had never existed.
func (v *vandals) atRest() {
	v.t.Helper()
	v.converse(200)
	v.end()
	v.until(10*time.Second, "every send to it has ended", func() bool { v.reap(); return len(v.open) == 0 })
	buf := make([]byte, 1<<20)
	// The messages that it has sent to the others stay theirs.
	for _, at := range []*tester{v.a, v.b} {
		v.settle()
		for at.e.process(at.slot).stray.n > 0 {
			at.finish(true, at.recv("", 0, vni.AnyTag, buf))
			v.settle()
		}
	}
	v.noLeaks()
}

// The fuzzer is useful only if these things happen: rings are used, stall, are put back and
// refused, runs leave and are refused, and lives end because of impossible values.
func TestAProcessThatWrecksItsRingsHarmsItselfAlone(t *testing.T) { // decision 10
	scripts := 150
	if testing.Short() {
		scripts = 50
	}
	rng := rand.New(rand.NewPCG(7, 11))
	var packed, stalls, returned, refused, detached, runs uint64
	for range scripts {
		script := make([]byte, 500+rng.IntN(1500))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		v := newVandals(t, script, mutate.None)
		v.act()
		v.atRest()
		e := v.a.e
		packed, stalls, returned = packed+e.Count(vni.NICPacked), stalls+e.Count(vni.NICStalls), returned+e.Count(vni.NICReturned)
		refused, detached = refused+e.Count(vni.NICFailedBadArgument), detached+e.Count(vni.NICDetaches)
		runs += e.Ways()[WayRunSegment]
	}
	t.Logf("%d messages packed, %d stalls, %d returned, %d refused, %d lives thrown out, %d messages of runs sent", packed, stalls, returned, refused, detached, runs)
	for what, n := range map[string]uint64{"packed into a ring": packed, "stalled": stalls, "given back": returned, "refused": refused, "thrown out": detached, "sent by runs": runs} {
		if n < uint64(scripts/5) {
			t.Errorf("%d were %s in %d scripts", n, what, scripts)
		}
	}
}
