package ebpf_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/pdltest"
	"github.com/weftnet/weft/pdl/vm"
)

// disagreement passes messages to the virtual machine and to the kernel, and returns how the two
// differ, or "". ends are the outcomes of the activations.
func (b *bench) disagreement(src string, seed uint64) (difference string, ends []vm.Outcome) {
	m, err := pdl.Compile("random.pdl", []byte(src))
	if err != nil {
		return err.Error(), nil
	}
	v := newMachine(b.t, m)
	if o := v.machine.Start(programID); o != vm.Awaiting {
		return "", []vm.Outcome{o}
	}
	v.effects = nil
	k := b.load(m)
	defer func() { k.close() }()
	v.sync(k)
	random := rand.New(rand.NewPCG(seed, 1))
	for n := range 6 {
		packet := make([]byte, 40-random.IntN(40)*random.IntN(2)*random.IntN(2))
		for i := range packet {
			packet[i] = byte(random.Uint32())
		}
		trigger := uint32(1 + random.IntN(2))
		want := v.machine.Dispatch(&vm.Message{Program: programID, Trigger: trigger, Source: peerNIC, Payload: packet})
		ends = append(ends, want)
		before := k.standing()
		got := k.send(trigger, packet)
		if got.verdict == xdpPass {
			if d := k.changed(before); d != "" {
				return fmt.Sprintf("message %d, which the engine is given: %s", n, d), ends
			}
			b.handed++
			if want == vm.Stopped {
				break
			}
			v.effects = nil
			k.close()
			k = b.load(m) // starts with empty accounts,
			v.sync(k)     // and with the machine's data after the message
			continue
		}
		if d := v.differs(k, want, got); d != "" {
			return fmt.Sprintf("message %d of %d bytes for trigger %d, %v: %s", n, len(packet), trigger, want, d), ends
		}
		if want == vm.Stopped {
			break
		}
	}
	return "", ends
}

// standing is everything in the kernel that a message can change.
type standing struct {
	words   []int64
	profile vm.Profile
	memory  map[uint32][]byte // of segments
}

func (k *kernel) standing() (s standing) {
	k.t.Helper()
	var err error
	if s.words, err = k.Words(); err != nil {
		k.t.Fatal(err)
	}
	if s.profile, _, err = k.Profile(); err != nil {
		k.t.Fatal(err)
	}
	s.memory = make(map[uint32][]byte)
	for id, segment := range k.segments {
		b := make([]byte, segment.Map.ValueSize())
		if err := segment.Map.Lookup(uint32(0), &b); err != nil {
			k.t.Fatal(err)
		}
		s.memory[id] = b
	}
	return s
}

// changed returns what a message has changed in the kernel that went on to the engine, or "" if
// nothing.
func (k *kernel) changed(before standing) string {
	if after := k.standing(); !reflect.DeepEqual(after, before) {
		return fmt.Sprintf("it changed %+v into %+v", before, after)
	}
	if shown := k.shown(); len(shown) > 0 {
		return fmt.Sprintf("it displayed %q", shown)
	}
	return ""
}

// The kernel's verifier accepts each program that the compiler accepts, and the program does in
// the kernel the same as in the virtual machine.
func TestTheKernelAndTheMachineAgree(t *testing.T) {
	b := newBench(t)
	count := make(map[vm.Outcome]int)
	programs := 500
	if testing.Short() {
		programs = 100
	}
	tried, agreed := 0, 0
	for seed := uint64(0); agreed < programs; seed++ {
		src := pdltest.Resident(rand.New(rand.NewPCG(seed, 0)))
		m, err := pdl.Compile("random.pdl", []byte(src))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if tried++; ebpf.Check(m) != nil {
			continue
		}
		agreed++
		if b.most = 1 << 15; seed%5 == 0 {
			b.most = 12 // a narrow path, so that the engine gets some messages
		}
		d, ends := b.disagreement(src, seed)
		if d != "" {
			t.Fatalf("seed %d: %s\n%s", seed, d, src)
		}
		for _, o := range ends {
			count[o]++
		}
	}
	t.Logf("%d of %d programs can reside; %v", agreed, tried, count)
	for _, o := range []vm.Outcome{vm.Awaiting, vm.Stopped, vm.Passed, vm.Dropped, vm.Aborted} {
		if count[o] < agreed/50 {
			t.Errorf("%d of the activations ended by %v: the programs are too much alike", count[o], o)
		}
	}
	if agreed < tried/2 {
		t.Errorf("%d of %d programs can reside; expected half of them at least", agreed, tried)
	}
	if b.handed < agreed/10 {
		t.Errorf("%d messages are the engine's, because their answers may be long: the programs are too much alike", b.handed)
	}
	if b.replies < agreed/10 || b.displays < agreed/10 {
		t.Errorf("%d replies and %d displays: the programs are too much alike", b.replies, b.displays)
	}
}
