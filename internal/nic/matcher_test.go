package nic

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"pgregory.net/rapid"
)

// settle steps until no engine has anything to do.
func (f *fabric) settle() {
	for quiet := 0; quiet < 3; {
		work := 0
		for _, e := range f.engines {
			w, _ := e.Poll(f.now)
			work += w
		}
		f.now += clock.Time(1000)
		if quiet++; work > 0 {
			quiet = 0
		}
	}
}

// model is the matcher in its simplest form (QNIX-19, QNIX-20, decision 9): two lists, searched
// from the front.
type model struct {
	posted []modelReceive
	stray  []modelMessage
	got    map[int]uint64 // by receive: the message that it should get
}

type modelReceive struct {
	id, from int // from: -1 any
	tag      int // below 0: any of port ^tag
}

// portTags is the number of tags of each port in the model: tag t is tag t mod portTags of port t
// / portTags.
const portTags = 2

// word returns a tag of the model as it stands in an envelope.
func word(tag int) uint64 { return uint64(tag/portTags)<<vni.PortShift | uint64(tag%portTags) }

type modelMessage struct {
	serial    uint64
	from, tag int
}

func (r *modelReceive) wants(m modelMessage) bool {
	return (r.from < 0 || r.from == m.from) && (r.tag == m.tag || r.tag == ^(m.tag/portTags))
}

func (m *model) send(msg modelMessage) {
	for i, r := range m.posted {
		if r.wants(msg) {
			m.got[r.id] = msg.serial
			m.posted = slices.Delete(m.posted, i, i+1)
			return
		}
	}
	m.stray = append(m.stray, msg)
}

func (m *model) receive(r modelReceive) {
	for i, msg := range m.stray {
		if r.wants(msg) {
			m.got[r.id] = msg.serial
			m.stray = slices.Delete(m.stray, i, i+1)
			return
		}
	}
	m.posted = append(m.posted, r)
}

// matching runs an engine's matcher next to the model.
type matching struct {
	t       *rapid.T
	f       *fabric
	senders []*tester
	dst     *tester
	model   model
	serial  uint64
	recvs   []int // by model id: context, or -1 when over
	bufs    [][]byte
	sends   map[uint64]pendingSend // long ones whose message has met no receive
}

type pendingSend struct {
	p   *tester
	ctx int
}

const longest = 20_000 // too long to go without permission

func (m *matching) send() {
	from := rapid.IntRange(0, len(m.senders)-1).Draw(m.t, "from")
	for range rapid.IntRange(1, 4).Draw(m.t, "burst") {
		if len(m.model.stray) > 40 || len(m.sends) > 40 {
			return
		}
		m.serial++
		tag := rapid.IntRange(0, 3).Draw(m.t, "tag")
		data := make([]byte, rapid.SampledFrom([]int{8, 700, 1400, 5000, longest}).Draw(m.t, "size"))
		binary.LittleEndian.PutUint64(data, m.serial)
		p := m.senders[from]
		m.sends[m.serial] = pendingSend{p, p.send(m.dst.name.String(), word(tag), 0, data)}
		m.model.send(modelMessage{m.serial, from, tag})
	}
}

func (m *matching) receive() {
	if len(m.model.posted) > 40 {
		return
	}
	r := modelReceive{id: len(m.recvs), from: rapid.IntRange(-1, len(m.senders)-1).Draw(m.t, "from"), tag: rapid.IntRange(-2, 3).Draw(m.t, "tag")}
	name, flags, tag := "", uint32(0), word(r.tag)
	if r.from >= 0 {
		name = m.senders[r.from].name.String()
	}
	if r.tag < 0 {
		flags, tag = vni.AnyTag, word(^r.tag*portTags)|1 // only its port counts
	}
	buf := make([]byte, longest)
	m.bufs = append(m.bufs, buf)
	m.recvs = append(m.recvs, m.dst.recv(name, tag, flags, buf))
	m.model.receive(r)
}

// cancelReceive withdraws a posted receive.
func (m *matching) cancelReceive() {
	if len(m.model.posted) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.model.posted)-1).Draw(m.t, "receive")
	id := m.model.posted[i].id
	m.model.posted = slices.Delete(m.model.posted, i, i+1)
	m.dst.post(vni.Command{Code: vni.CodeCancel, Context: uint16(m.recvs[id]), Size: vni.CancelReceive})
	if c := m.dst.finish(true, m.recvs[id]); c.Status != vni.StatusCancelled {
		m.t.Fatalf("receive %d, cancelled, ended with %v", id, c.Status)
	}
	m.recvs[id] = -1
}

// cancelSend withdraws a message that is unexpected and that its sender still holds.
func (m *matching) cancelSend() {
	for i, msg := range m.model.stray {
		s, ok := m.sends[msg.serial]
		if !ok || s.p.done(false, s.ctx) {
			continue
		}
		s.p.post(vni.Command{Code: vni.CodeCancel, Context: uint16(s.ctx), Size: vni.CancelSend})
		if c := s.p.finish(false, s.ctx); c.Status != vni.StatusCancelled {
			m.t.Fatalf("message %d, cancelled, ended with %v", msg.serial, c.Status)
		}
		delete(m.sends, msg.serial)
		m.model.stray = slices.Delete(m.model.stray, i, i+1)
		return
	}
}

// compare lets everything arrive and compares every receive with the model.
func (m *matching) compare() {
	m.f.settle()
	for serial, s := range m.sends {
		if s.p.done(false, s.ctx) {
			s.p.v.Release(false, s.ctx)
			delete(m.sends, serial)
		}
	}
	for id, ctx := range m.recvs {
		if ctx < 0 {
			continue
		}
		want, over := m.model.got[id]
		if over != m.dst.done(true, ctx) {
			m.t.Fatalf("receive %d: done %v, expected %v (message %d)", id, !over, over, want)
		}
		if !over {
			continue
		}
		if got := binary.LittleEndian.Uint64(m.bufs[id]); got != want {
			m.t.Fatalf("receive %d got message %d, expected %d", id, got, want)
		}
		m.dst.v.Release(true, ctx)
		m.recvs[id] = -1
	}
}

func TestTheMatcherAgreesWithADumbOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &matching{t: rt, f: newFabric(t, 3, fault.Config{}), model: model{got: map[int]uint64{}}, sends: map[uint64]pendingSend{}}
		m.dst = m.f.process(0, "dst/0")
		for i := range 4 { // two of them are on the receiver's NIC, one of them the receiver itself
			p := m.dst
			if i > 0 {
				p = m.f.process(i-1, fmt.Sprintf("src/%d", i))
				m.f.known(p.name.String())
			}
			m.senders = append(m.senders, p)
		}
		m.f.known("dst/0")
		rt.Repeat(map[string]func(*rapid.T){
			"send":           func(*rapid.T) { m.send() },
			"receive":        func(*rapid.T) { m.receive() },
			"cancel receive": func(*rapid.T) { m.cancelReceive() },
			"cancel send":    func(*rapid.T) { m.cancelSend() },
			"":               func(*rapid.T) { m.compare() },
		})
	})
}
