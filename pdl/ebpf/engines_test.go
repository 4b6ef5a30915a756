package ebpf_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	cilium "github.com/cilium/ebpf"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// The environment of the programs under test, the same for both engines.
const (
	programID = 77
	service   = 2
	peerNIC   = 0x0102030405060708
	now       = 4711
	index     = 0x1234
	cookie    = 0xfeedfacecafebeef
	words     = 2 // locks of a segment
	around    = wire.OuterLen + wire.DatagramLen + wire.ProgramDatagramLen + wire.TagLen

	xdpDrop, xdpPass, xdpTx = 1, 2, 3
)

var segmentBytes = map[uint32]int{1: 64, 2: 16, 7: 8}

// A machine is the virtual machine with a host that records its requests.
type machine struct {
	machine  *vm.Machine
	effects  []string
	segments map[int64][]byte // including their locks and flags
	// before is the profile when the kernel took over: it counts the initialisation and earlier
	// messages.
	before vm.Profile
}

func newMachine(t testing.TB, m *prog.Module) *machine {
	t.Helper()
	v := &machine{segments: make(map[int64][]byte)}
	for id, n := range segmentBytes {
		v.segments[int64(id)] = make([]byte, n+8*words)
	}
	var err error
	v.machine, err = vm.New(vm.Config{Host: v, CodeWords: prog.MaxCode, DataWords: prog.MaxData, Programs: 1, Budget: limits.ProgramBudget})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.machine.Load(programID, m); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *machine) tell(format string, args ...any) {
	v.effects = append(v.effects, fmt.Sprintf(format, args...))
}
func (v *machine) Clock() int64                                { return now }
func (v *machine) Members(vm.ID, string, func(vm.Destination)) {}

// Resident programs look no name up.
func (v *machine) Lookup(prog.SymbolKind, string, uint64) (int64, bool) { return 0, false }
func (v *machine) Send(_ vm.ID, to vm.Destination, b []byte) bool {
	if to.NIC != peerNIC || len(b) > ebpf.MostMessage {
		return false
	}
	v.tell("send %x as %d to %d", b, to.Trigger, to.Program)
	return true
}
func (v *machine) within(t vm.Transfer, n int) []byte {
	size := int64(segmentBytes[uint32(t.Segment)])
	if size == 0 || int64(uint32(t.Segment)) != t.Segment || t.Offset > size || int64(n) > size-t.Offset {
		return nil
	}
	return v.segments[t.Segment][t.Offset:][:n:n]
}
func (v *machine) Deliver(t vm.Transfer, b []byte) vm.Status {
	part := v.within(t, len(b))
	if part == nil {
		return vm.Refused
	}
	copy(part, b)
	return vm.Done
}
func (v *machine) Get(t vm.Transfer, b []byte) vm.Status {
	part := v.within(t, len(b))
	if part == nil {
		return vm.Refused
	}
	copy(b, part)
	return vm.Done
}

// syncWord returns the memory of lock n, or of flag n.
func (v *machine) syncWord(n int64, flag bool) []byte {
	if n < 0 || v.segments[n/words] == nil {
		return make([]byte, 4)
	}
	at := segmentBytes[uint32(n/words)] + int(n%words)*4
	if flag {
		at += 4 * words
	}
	return v.segments[n/words][at:][:4]
}
func (v *machine) Lock(n int64) bool           { return v.syncWord(n, false)[0] != 0 }
func (v *machine) ClearLock(n int64)           { v.syncWord(n, false)[0] = 0 }
func (v *machine) SetFlag(n int64)             { v.syncWord(n, true)[0] = 1 }
func (v *machine) Display(from vm.ID, x int64) { v.tell("display %d", x) }

// A bench runs programs in the kernel.
type bench struct {
	t                 testing.TB
	host              *ebpf.Host
	path              ebpf.Path
	replies, displays int
	handed            int // messages that went on to the engine
	most              int // length of the longest message that the path carries in one frame
}

// newBench skips the test, with the reason, if this kernel or user cannot have such programs.
func newBench(t testing.TB) *bench { return newBenchOn(t, ebpf.Path{}) }

func newBenchOn(t testing.TB, path ebpf.Path) *bench {
	t.Helper()
	h, err := ebpf.NewHost(ebpf.HostConfig{Service: service, Path: path})
	if errors.Is(err, ebpf.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return &bench{t: t, host: h, path: path, most: 1 << 15}
}

// A kernel is a program in the kernel, with its segments.
type kernel struct {
	*bench
	*ebpf.Resident
	segments map[uint32]ebpf.Segment
	counter  uint64
}

func (b *bench) options() ebpf.Options {
	return ebpf.Options{ID: programID, Service: service, Path: b.path, FrozenClock: true}
}

func (b *bench) load(m *prog.Module) *kernel {
	b.t.Helper()
	k := &kernel{bench: b, segments: make(map[uint32]ebpf.Segment)}
	for id, n := range segmentBytes {
		m, err := cilium.NewMap(&cilium.MapSpec{Type: cilium.Array, KeySize: 4, ValueSize: uint32(n + 8*words), MaxEntries: 1, Flags: 1 << 10})
		if err != nil {
			b.t.Fatal(err)
		}
		k.segments[id] = ebpf.Segment{Map: m, Bytes: n, Words: words}
	}
	o := b.options()
	o.Segments = k.segments
	obj, err := ebpf.Compile(m, o)
	if err != nil {
		b.t.Fatal(err)
	}
	if k.Resident, err = obj.Load(b.host); err != nil {
		var refused *cilium.VerifierError
		if errors.As(err, &refused) {
			b.t.Fatalf("%+v\n%s", refused, m.Disassemble(""))
		}
		b.t.Fatal(err)
	}
	if err := errors.Join(k.SetClock(now), b.host.SetSession(index, ebpf.Session{NIC: peerNIC, Cookie: cookie, Most: k.most + around,
		ReplyIndex: 99, ReplyCookie: 7777, ReplyCounter: 1000})); err != nil {
		b.t.Fatal(err)
	}
	return k
}

func (k *kernel) close() {
	k.Resident.Close()
	for _, s := range k.segments {
		s.Map.Close()
	}
}

// sync copies the state of the machine to the kernel.
func (v *machine) sync(k *kernel) {
	k.t.Helper()
	data, err := v.machine.Data(programID)
	if err != nil {
		k.t.Fatal(err)
	}
	info, _ := v.machine.Info(programID)
	v.before = info.Profile
	if err := k.Start(data); err != nil {
		k.t.Fatal(err)
	}
	for id, s := range k.segments {
		if err := s.Map.Put(uint32(0), v.segments[int64(id)]); err != nil {
			k.t.Fatal(err)
		}
	}
}

// datagram returns an Ethernet frame with a message.
func datagram(counter uint64, program, trigger uint32, payload []byte) []byte {
	body := make([]byte, wire.ProgramDatagramLen, wire.ProgramDatagramLen+len(payload))
	p := wire.ProgramDatagram{Program: program, Trigger: trigger}
	p.Put(body)
	body = append(body, payload...)
	n := wire.OuterLen + wire.DatagramLen + len(body)
	frame := make([]byte, n+wire.TagLen)
	wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged, Index: index, Counter: counter}.Put(frame)
	d := wire.Datagram{ID: uint32(counter), Length: uint32(len(body)), Service: service}
	d.Put(frame[wire.OuterLen:], len(body))
	copy(frame[wire.OuterLen+wire.DatagramLen:], body)
	wire.Seal(frame, n, cookie)
	return ethernet(frame)
}

// answer is the result of a frame.
type answer struct {
	verdict uint32
	frame   []byte
}

// send runs the program on a message.
func (k *kernel) send(trigger uint32, payload []byte) answer {
	k.t.Helper()
	k.counter++
	return k.run(k.wrapped(datagram(k.counter, programID, trigger, payload)[42:]))
}

func (k *kernel) run(frame []byte) answer {
	k.t.Helper()
	out := make([]byte, 4096)
	verdict, err := k.Program().Run(&cilium.RunOptions{Data: frame, DataOut: out})
	if err != nil {
		k.t.Fatal(err)
	}
	return answer{verdict, out}
}

// shown returns the displays since the last call.
func (k *kernel) shown() (list []string) {
	for {
		id, v, err := k.host.Display(time.Now())
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return list
		}
		if err != nil || id != programID {
			k.t.Fatal(id, err)
		}
		k.displays++
		list = append(list, fmt.Sprintf("display %d", v))
	}
}

// differs compares the effects of a message in both engines.
func (v *machine) differs(k *kernel, want vm.Outcome, got answer) string {
	shown := k.shown()
	verdict := uint32(xdpDrop) // also after PASS: the engine would handle the message a second time
	var wanted []string
	for _, e := range v.effects {
		if e[0] == 's' {
			verdict = xdpTx
			k.replies++
			if sent := k.opened(got.frame); sent != e {
				return fmt.Sprintf("it sent %q, and the machine %q", sent, e)
			}
			continue
		}
		wanted = append(wanted, e)
	}
	v.effects = nil
	if got.verdict != verdict {
		return fmt.Sprintf("verdict %d, expected %d", got.verdict, verdict)
	}
	if !slices.Equal(shown, wanted) {
		return fmt.Sprintf("it displayed %q, and the machine %q", shown, wanted)
	}
	data, _ := v.machine.Data(programID)
	have, err := k.Words()
	if err != nil {
		return err.Error()
	}
	for i := range data {
		if data[i] != have[i] {
			return fmt.Sprintf("word %d is %d, and in the machine %d", i, have[i], data[i])
		}
	}
	for id, s := range k.segments {
		b := make([]byte, s.Map.ValueSize())
		if err := s.Map.Lookup(uint32(0), &b); err != nil {
			return err.Error()
		}
		if !bytes.Equal(b, v.segments[int64(id)]) {
			return fmt.Sprintf("segment %d is %x, and in the machine %x", id, b, v.segments[int64(id)])
		}
	}
	info, _ := v.machine.Info(programID)
	p, c, err := k.Profile()
	if err != nil {
		return err.Error()
	}
	if want == vm.Stopped != c.Stopped {
		return fmt.Sprintf("it is stopped: %v", c.Stopped)
	}
	whole := info.Profile.Since(&v.before)
	if p != whole {
		return fmt.Sprintf("its profile is %+v, and in the machine %+v", p, whole)
	}
	return ""
}

// opened returns the content of a reply, in the words of the machine. It checks the whole frame.
func (k *kernel) opened(b []byte) string {
	frame, wrong := k.unwrapped(b)
	if wrong != "" {
		return wrong
	}
	o, rest, err := wire.ParseOuter(frame)
	n, bad := wire.Open(frame, 7777)
	if err != nil || bad != nil || o.Index != 99 || o.Kind != wire.KindDatagram {
		return fmt.Sprintf("a frame that is not in order: %v, %v, %+v, %x", err, bad, o, frame)
	}
	d, payload, err := wire.ParseDatagram(rest[:n-wire.OuterLen])
	if err != nil || d.Service != service || int(d.Length) != len(payload) {
		return fmt.Sprintf("a datagram that is not in order: %v, %+v, %x", err, d, payload)
	}
	p, message, err := wire.ParseProgramDatagram(payload)
	if err != nil || p.From != programID {
		return fmt.Sprintf("a datagram for programs that is not in order: %v, %+v, %x", err, p, payload)
	}
	return fmt.Sprintf("send %x as %d to %d", message, p.Trigger, p.Program)
}
