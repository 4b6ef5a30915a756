package resident

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/vm"
)

const (
	patience  = 60 * time.Second
	programID = 415
	peerNIC   = 0x0102030405060708
)

// keys are the keys of a session with the peer.
var keys = rel.DriverKeys{Index: 0x1234, Cookie: 0xfeedface, Most: 1472, ReplyIndex: 99, ReplyCookie: 7777}

// A nicTest is a NIC's programs on one host, and another NIC's link on a second host, joined by a
// cable.
type nicTest struct {
	t        *testing.T
	programs *Programs
	client   link.Driver
	server   *xdp.Driver
	engine   *engine
	keys     rel.DriverKeys // of the open session
	counter  uint64         // of its frames
}

// newNIC returns a nicTest without a program. It skips the test, with the reason, if there can be
// no drivers.
func newNIC(t *testing.T) *nicTest {
	t.Helper()
	n, _ := newNICOn(t)
	return n
}

// newNICOn is like newNIC, and also returns the hosts.
func newNICOn(t *testing.T) (*nicTest, *testbed.Testbed) {
	t.Helper()
	bed := hosts(t, testbed.Config{Hosts: 2})
	return newNICOf(t, listen(t, bed.Host(0), bed.Host(0).Addr()), listen(t, bed.Host(1), bed.Host(1).Addr())), bed
}

func hosts(t *testing.T, cfg testbed.Config) *testbed.Testbed {
	t.Helper()
	bed, err := testbed.New(cfg)
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	return bed
}

// listen returns an AF_XDP driver on a host.
func listen(t *testing.T, h *testbed.Host, at netip.Addr) (d *xdp.Driver) {
	t.Helper()
	err := h.Do(func() (err error) {
		d, err = xdp.Listen(xdp.Config{Addr: netip.AddrPortFrom(at, 0)})
		return err
	})
	if errors.Is(err, xdp.ErrUnavailable) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ERANGE) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// newNICOf returns a NIC with the link server, and the other NIC's link client.
func newNICOf(t *testing.T, client link.Driver, server *xdp.Driver) *nicTest {
	e := &engine{changed: make(chan struct{}, 1)}
	e.table = program.New(program.Config{NIC: 7, Counts: make([]uint64, len(vni.Names()))}, e)
	n := &nicTest{t: t, client: client, server: server, engine: e, keys: keys}
	n.programs = New(Config{Link: server, Do: e.do, Now: e.Now})
	t.Cleanup(func() { n.programs.Close() })
	return n
}

// engine is the part of a NIC's engine that programs need. The holder of the lock owns it.
type engine struct {
	mu      sync.Mutex
	table   *program.Table
	rang    []uint32
	changed chan struct{} // holds a token when the table was used
}

func (e *engine) do(f func(*program.Table)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.table)
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *engine) Now() clock.Time                                             { return 1e9 }
func (e *engine) Clock() clock.Time                                           { return 1e9 }
func (e *engine) Peer(uint64) *program.Peer                                   { return nil }
func (e *engine) Peers(func(*program.Peer) bool)                              {}
func (e *engine) Announce(*program.Peer, int) []byte                          { return nil }
func (e *engine) CheckAt(clock.Time)                                          {}
func (e *engine) Answered(program.Request, vm.Outcome)                        {}
func (e *engine) Ended(program.Request, vni.Status)                           {}
func (e *engine) Rang(segment uint32)                                         { e.rang = append(e.rang, segment) }
func (e *engine) TakeBuffer(n int) []byte                                     { return make([]byte, n) }
func (e *engine) GiveBuffer([]byte)                                           {}
func (e *engine) Guard(vni.Name, program.GuardFunc, program.Whose)            {}
func (e *engine) GuardOutgoing(vni.Name, program.OutgoingFunc, program.Whose) {}
func (e *engine) UserOf(vni.Name) (string, bool)                              { return "", false }
func (e *engine) Deliver(vm.ID, program.Arrival) bool                         { return true }

// load makes a program reside, as a daemon does.
func (n *nicTest) load(source string, replace bool) {
	n.t.Helper()
	m := module(n.t, source)
	var key uint64
	var id vm.ID
	var err error
	n.engine.do(func(t *program.Table) {
		key, id, err = t.Prepare(program.Spec{Module: m, ID: programID, Replace: replace, Start: true, Resident: true})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	r, err := n.programs.Prepare(id, m)
	if err != nil {
		n.t.Fatal(err)
	}
	n.engine.do(func(t *program.Table) {
		if err = t.Reside(key, r); err == nil {
			if _, _, err = t.Commit(key); err == nil {
				err = t.Settle(key)
			}
		}
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// meet begins a session with the peer; part ends it.
func (n *nicTest) meet(k rel.DriverKeys) {
	n.keys, n.counter = k, 0
	n.engine.do(func(*program.Table) { driver{n.programs, n.programs.host}.Session(peerNIC, k) })
}

func (n *nicTest) part() {
	n.engine.do(func(*program.Table) { driver{n.programs, n.programs.host}.EndSession(peerNIC) })
}

// send sends a message of words for the program, and returns its frame.
func (n *nicTest) send(trigger uint32, words ...uint64) []byte {
	n.t.Helper()
	var payload []byte
	for _, w := range words {
		payload = binary.LittleEndian.AppendUint64(payload, w)
	}
	return n.sendBytes(trigger, payload)
}

func (n *nicTest) sendBytes(trigger uint32, payload []byte) []byte {
	n.t.Helper()
	n.counter++
	body := wire.ProgramDatagramLen + len(payload)
	at := wire.OuterLen + wire.DatagramLen
	frame := make([]byte, at+body+wire.TagLen)
	wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged, Index: n.keys.Index, Counter: n.counter}.Put(frame)
	d := wire.Datagram{ID: uint32(n.counter), Length: uint32(body), Service: wire.ServiceProgram}
	d.Put(frame[wire.OuterLen:], body)
	p := wire.ProgramDatagram{Program: programID, Trigger: trigger}
	p.Put(frame[at:])
	copy(frame[at+wire.ProgramDatagramLen:], payload)
	wire.Seal(frame, at+body, n.keys.Cookie)
	linktest.Send(n.t, n.client, n.server.Addr(), frame)
	return frame
}

// answered sends a message, and expects the program's answer to be a word.
func (n *nicTest) answered(want uint64, trigger uint32, words ...uint64) {
	n.t.Helper()
	n.send(trigger, words...)
	if message := n.answer(); len(message) != 8 || binary.LittleEndian.Uint64(message) != want {
		n.t.Fatalf("%x; expected %d", message, want)
	}
}

// answer returns the next message of the program to program 416.
func (n *nicTest) answer() []byte {
	n.t.Helper()
	var in linktest.Inbox
	linktest.Collect(n.t, n.client, &in, 1)
	return n.opened(in.Frames[0])
}

// opened returns the message in an answering frame.
func (n *nicTest) opened(frame []byte) []byte {
	n.t.Helper()
	end, err := wire.Open(frame, n.keys.ReplyCookie)
	if err != nil {
		n.t.Fatal(err)
	}
	_, payload, err := wire.ParseDatagram(frame[wire.OuterLen:end])
	if err != nil {
		n.t.Fatal(err)
	}
	p, message, err := wire.ParseProgramDatagram(payload)
	if err != nil || p.Program != 416 || p.From != programID {
		n.t.Fatalf("%+v, %x, %v; expected a message of program %d to 416", p, message, err, programID)
	}
	return message
}

// passes sends a message, and expects the NIC to get its frame.
func (n *nicTest) passes(trigger uint32, words ...uint64) {
	n.t.Helper()
	frame := n.send(trigger, words...)
	var in linktest.Inbox
	linktest.Collect(n.t, n.server, &in, 1)
	if !slices.Equal(in.Frames[0], frame) {
		n.t.Fatalf("%x has come to the NIC, and not %x", in.Frames[0], frame)
	}
}

// eventually waits until is returns true for the table, or for its reports to the engine.
func (n *nicTest) eventually(what string, is func(*program.Table) bool) {
	n.t.Helper()
	late := time.After(patience)
	for {
		n.engine.mu.Lock()
		ok := is(n.engine.table)
		n.engine.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-n.engine.changed:
		case <-late:
			n.t.Fatalf("after %v it is not so that %s", patience, what)
		}
	}
}
