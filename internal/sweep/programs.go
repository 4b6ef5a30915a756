package sweep

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/sim"
)

// workshop is a small fabric in addition to the fabric of a run: three NICs with programs in
// them, and processes that send to these programs.
//
//	senders ── numbered messages ──► echo on some NIC ── half of them ──► echo on another NIC:
//	                                                   each shows the number once
//	        ── numbered datagrams ──► drip, which is resident: shows each number at most once
//	        ── even, odd, broken ──► filter ──► guarded: gets only the even ones
//	tinkerer: replaces the counter and the filter; restores versions of the counter that others
//	          unload meanwhile; replaces programs, by a name, that have another number on each
//	          NIC; loads endless programs and a second filter; transfers beyond a segment; kills
//	          a NIC that has prepared a program for all NICs; removes the filter
//
// In the end each message has been handled once, or its NIC has died. The counter has kept its
// count. Endless programs were stopped. The room that one NIC occupies on another NIC, by its own
// count, is the room that the other NIC counts as taken.
type workshop struct {
	f   *sim.Fabric
	rng *rand.Rand
	// The host that must show a number. Numbers for a NIC that has died are not expected.
	sent    map[int64]int
	known   map[int64]bool
	next    int64
	senders int
	even    map[int64]bool // numbers that the guarded process was sent and must get
	got     map[int64]bool
	open    bool // there is no filter
	costs   map[*nic.Engine]uint64
	worked  uint64
	found   []string
}

// The numbers of the programs.
const (
	echoID    vm.ID = 10
	counterID vm.ID = 20
	dripID    vm.ID = 30
	filterID  vm.ID = 40
	sieveID   vm.ID = 41
	guarded         = 1 // host of the guarded process
	mortal          = 2 // host whose NIC dies
)

var guardedName, _ = vni.ParseName("guarded/0") // a valid name

var workshopSources = map[string]string{
	"echo": `PROGRAM echo: VAR i, sum; TRIGGERS 1, 2;
BEGIN END;
MESSAGE 1: BEGIN
    sum = 0; i = 2;
    WHILE i < PACKETLEN / 8 DO BEGIN sum = sum + PACKET[i]; i = i + 1 END;
    IF sum = PACKET[1] THEN DISPLAY PACKET[0] ELSE DISPLAY -PACKET[0];
END;
MESSAGE 2: BEGIN SEND PACKET[1] LEN PACKETLEN - 8 AS 1 TO 10 AT PACKET[0] END;
END;`,
	"counter": `PROGRAM counter: VAR n; TRIGGERS 1;
BEGIN n = 0 END;
MESSAGE 1: BEGIN n = n + 1; DISPLAY n END;
END;`,
	"counter, another layout": `PROGRAM counter: VAR n, unused[5]; TRIGGERS 1;
BEGIN n = 1000000 END;
MESSAGE 1: BEGIN n = n + 1; DISPLAY n END;
END;`,
	"counter that never ends": `PROGRAM counter: VAR n; TRIGGERS 1;
BEGIN n = 0 END;
MESSAGE 1: BEGIN WHILE 1 DO n = n + 1 END;
END;`,
	"twin": `PROGRAM twin: VAR n; TRIGGERS 1; BEGIN END; ` +
		`MESSAGE 1: BEGIN n = n + 1; DISPLAY n END; END;`,
	"twin, another layout": `PROGRAM twin: VAR n, unused[5]; TRIGGERS 1; BEGIN END; ` +
		`MESSAGE 1: BEGIN n = n + 1; DISPLAY n END; END;`,
	"stranger": `PROGRAM stranger: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY 7 END; END;`,
	"filter": `PROGRAM filter: TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN IF 6 / PACKETBYTE[8] > 0 AND PACKET[0] % 2 = 0 THEN PASS; DROP END;
END;`,
	"sieve": `PROGRAM sieve: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN PASS END; END;`,
	"spin":  `PROGRAM spin: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN WHILE 1 DO BEGIN END END; END;`,
	"again": `PROGRAM again: VAR n; TRIGGERS 1; BEGIN END; ` +
		`MESSAGE 1: BEGIN n = n + 1; SEND n LEN 8 AS 1 TO again END; END;`,
	"flood": `PROGRAM flood: VAR v[2000]; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN SEND PACKET[0] LEN PACKETLEN AS 1 TO flood; ` +
		`WHILE 1 DO SEND v[0] LEN 16000 AS 9 TO 99 AT PACKET[0] END; END;`,
	"beyond": `PROGRAM beyond: VAR v[600]; TRIGGERS 1; BEGIN v[599] = 1; v[128] = -1 END;
MESSAGE 1: BEGIN DELIVER v[0] OFFSET 0 INTO 5 LEN 512; DISPLAY 1; ` +
		`DELIVER v[0] OFFSET 8 INTO 5 LEN 1600; DISPLAY 2 END; END;`,
	"finder": `PROGRAM finder: VAR v; TRIGGERS 1; BEGIN END; ` +
		`MESSAGE 1: BEGIN DISPLAY 1; SEND v LEN 8 AS 1 TO lonely AT PACKET[0]; DISPLAY 2 END; END;`,
	"lonely": `PROGRAM lonely: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;`,
}

// workshopModules holds the compiled sources. They are compiled lazily: otherwise every start of
// weft would compile them.
var workshopModules = sync.OnceValue(func() map[string]*prog.Module {
	all := make(map[string]*prog.Module)
	for name, source := range workshopSources {
		m, err := pdl.Compile(name, []byte(source))
		if err != nil {
			panic(err)
		}
		all[name] = m
	}
	return all
})

// runWorkshop runs the workshop of a seed. It also returns the number of handled messages.
func runWorkshop(seed uint64, d mutate.Defect) (violations []string, handled uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x776f726b))
	w := &workshop{rng: rng, sent: map[int64]int{}, known: map[int64]bool{}, even: map[int64]bool{},
		got: map[int64]bool{}, costs: map[*nic.Engine]uint64{}}
	link := sim.Link{MTU: pick(rng, 1232, 1452, 8952), Latency: pick(rng, 5*time.Microsecond, 50*time.Microsecond),
		Jitter:    time.Microsecond,
		Bandwidth: 1_250_000_000, Reliable: rng.IntN(4) == 0}
	var faults sim.Faults
	if !link.Reliable {
		faults = sim.Faults{Loss: pick(rng, 0, 0.01, 0.05), Duplicate: pick(rng, 0, 0.02, 0.2),
			Reorder: pick(rng, 0, 0.02)}
	}
	checks := newChecks(limits.UnreachableAfter)
	w.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: 3, Link: link, Faults: faults,
		Replay: replay(seed, d)}, simulated.Hooks{
		Defect: d, CreditBytes: pick(rng, 0, 2<<10, -1), StagingBytes: pick(rng, 0,
			64<<10), Check: func(e *nic.Engine) error {
			return errors.Join(checks.check(e), w.metered(e))
		}}))
	for host := range 3 {
		w.load(host, "echo", program.Spec{ID: echoID, Start: true})
		w.load(host, "echo", program.Spec{ID: dripID, Start: true, Resident: true})
	}
	w.load(0, "counter", program.Spec{ID: counterID, Start: true})
	w.load(mortal, "lonely", program.Spec{ID: 50, Start: true})
	w.load(guarded, "filter", program.Spec{ID: filterID, Start: true, Guards: guardedName, Trigger: 1})
	w.f.Serve(guarded, "guarded/0", w.receive)
	w.senders = 3
	for host := range 3 {
		start := w.f.Process
		if host == mortal {
			start = w.f.Serve
		}
		plan := rand.New(rand.NewPCG(seed, uint64(host)))
		start(host, fmt.Sprintf("sends/%d", host), func(p *sim.Process) error { return w.send(p, host, plan) })
	}
	w.f.Process(0, "tinkers/0", w.tinker)
	if err := w.f.Run(5 * time.Minute); err != nil {
		w.violate("%v", err)
	}
	return w.found, w.worked
}

func (w *workshop) violate(format string, args ...any) {
	if len(w.found) < 20 {
		w.found = append(w.found, fmt.Sprintf("workshop, at %v: ", w.f.Elapsed())+fmt.Sprintf(format, args...))
	}
}

// table returns the programs of a host, or nil while its NIC is stopped.
func (w *workshop) table(host int) *program.Table {
	if e := simulated.Engine(w.f, host); e != nil {
		return e.Programs()
	}
	return nil
}

func (w *workshop) load(host int, name string, s program.Spec) (vm.ID, bool) {
	s.Module = workshopModules()[name]
	id, kept, err := w.table(host).Load(s)
	if err != nil {
		w.violate("%v", err)
	}
	simulated.Turn(w.f, host)
	return id, kept
}

// metered compares the instructions that programs have executed in one poll with their budget.
func (w *workshop) metered(e *nic.Engine) error {
	sum := uint64(0)
	for _, p := range e.Programs().List() {
		sum += p.Profile.Instructions
	}
	before, known := w.costs[e]
	w.costs[e] = sum
	if most := uint64(limits.ProgramPoll + limits.ProgramBudget + limits.ProgramBudget/4); known && sum > before &&
		sum-before > most {
		return fmt.Errorf("programs have executed %d instructions in one poll, at most %d may be", sum-before, most)
	}
	return nil
}

// packet makes a numbered message for the echo of a host. It has n words in addition to the
// number and the sum of the words.
func (w *workshop) packet(n int, rng *rand.Rand, host int) (number int64, message []byte) {
	w.next++
	b := make([]byte, 16+8*n)
	binary.LittleEndian.PutUint64(b, uint64(w.next))
	sum := uint64(0)
	for i := range n {
		v := rng.Uint64()
		binary.LittleEndian.PutUint64(b[16+8*i:], v)
		sum += v
	}
	binary.LittleEndian.PutUint64(b[8:], sum)
	w.sent[w.next], w.known[w.next] = host, true
	return w.next, b
}

// send is the function of a process that sends to echoes, the counter, and the guarded process.
func (w *workshop) send(p *sim.Process, host int, rng *rand.Rand) error {
	defer func() { w.senders-- }()
	ctx := context.Background()
	for range 60 {
		to := rng.IntN(3)
		// Number of the message, if it goes to an echo. Other messages are sent concurrently.
		var number int64
		var message []byte
		var err error
		switch rng.IntN(6) {
		case 0, 1: // directly
			n := pick(rng, 0, rng.IntN(60), rng.IntN(700), (prog.MaxMessage-16)/8)
			number, message = w.packet(n, rng, to)
			err = simulated.Half(p).SendProgram(ctx, nicID(to), uint32(echoID), 1, rng.IntN(2) == 0, message)
		case 2: // by way of another NIC
			on := rng.IntN(3)
			head := binary.LittleEndian.AppendUint64(nil, nicID(on))
			number, message = w.packet(rng.IntN(300), rng, on)
			err = simulated.Half(p).SendProgram(ctx, nicID(to), uint32(echoID), 2, rng.IntN(2) == 0, head, message)
			if to == mortal || on == mortal {
				delete(w.sent, number) // it may die with the message
			}
		case 3:
			err = simulated.Half(p).SendProgram(ctx, nicID(0), uint32(counterID), 1, true)
		case 4: // to a resident program: reliable only if the sender asks for the outcome
			asks := rng.IntN(4) == 0
			number, message = w.packet(pick(rng, rng.IntN(60), rng.IntN(700)), rng, to)
			err = simulated.Half(p).SendProgram(ctx, nicID(to), uint32(dripID), 1, asks, message)
			if !asks {
				delete(w.sent, number)
			}
		default:
			err = w.sendGuarded(ctx, p, rng)
		}
		if err != nil && to != mortal && host != mortal {
			w.violate("%s: send to host %d: %v", p.Name(), to, err)
		}
		if err != nil || to == mortal || host == mortal {
			delete(w.sent, number)
		}
		if errors.Is(err, proc.ErrNICGone) {
			return nil
		}
		p.Runtime().Sleep(context.Background(), time.Duration(rng.ExpFloat64()*float64(200*time.Microsecond)))
	}
	return nil
}

// sendGuarded sends the guarded process a message. Its filter passes the message, drops it, or
// fails.
func (w *workshop) sendGuarded(ctx context.Context, p *sim.Process, rng *rand.Rand) error {
	w.next++
	n, number := 16+rng.IntN(1000), w.next
	if rng.IntN(3) == 0 {
		n = 16 + rng.IntN(16<<10-16)
	}
	b := make([]byte, n)
	binary.LittleEndian.PutUint64(b, uint64(number))
	b[8] = byte(rng.IntN(3)) // if 0, the filter fails
	passes := number%2 == 0 && b[8] != 0
	if passes && p.Host() != mortal {
		w.even[number] = true
	}
	to := weft.Name{App: "guarded"}
	ctx, cancel := p.Runtime().WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if rng.IntN(2) == 0 {
		err := p.Peer(to).SendDelivered(ctx, 0, b)
		if errors.Is(err, weft.ErrFiltered) == passes && p.Host() != mortal {
			w.violate("message %d to the guarded process, which passes: %v; its send ended with %v", number, passes,
				err)
		}
		return unfiltered(err)
	}
	err := p.Send(ctx, to, 0, b)
	if errors.Is(err, weft.ErrFiltered) && passes {
		w.violate("message %d to the guarded process was to pass; its send ended with %v", number, err)
	}
	return unfiltered(err)
}

// unfiltered returns an error unless it is the filter's verdict.
func unfiltered(err error) error {
	if errors.Is(err, weft.ErrFiltered) {
		return nil
	}
	return err
}

// receive is the function of the guarded process.
func (w *workshop) receive(p *sim.Process) error {
	buf := make([]byte, 16<<10)
	for {
		m, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, buf)
		if err != nil {
			return nil
		}
		number := int64(binary.LittleEndian.Uint64(buf))
		switch {
		case w.got[number]:
			w.violate("message %d has come to the guarded process twice", number)
		case !w.open && (number%2 != 0 || buf[8] == 0):
			w.violate("message %d of %d bytes has passed the filter", number, m.Full)
		}
		w.got[number] = true
		if p.Rand().IntN(8) == 0 {
			p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().ExpFloat64()*float64(time.Millisecond)))
		}
	}
}

// tinker changes programs while messages are in flight, and takes stock when none are.
func (w *workshop) tinker(p *sim.Process) error {
	// The NIC that dies may have to confirm the name.
	if _, err := p.WaitName(context.Background(), weft.Name{App: "guarded"}); err != nil {
		return err
	}
	w.replaceCounter(p)
	w.secondFilter(p)
	for range 4 {
		w.swap(p)
	}
	w.namesakes(p)
	w.endless(p)
	w.transfers(p)
	p.Runtime().Sleep(context.Background(), 5*time.Millisecond)
	w.everywhere(p)
	p.Runtime().Sleep(context.Background(), 3*limits.UnreachableAfter)
	w.f.StartNIC(mortal)
	for w.senders > 1 {
		p.Runtime().Sleep(context.Background(), 10*time.Millisecond)
	}
	p.Runtime().Sleep(context.Background(), 5*time.Second)
	w.finder(p)
	w.unguard(p)
	w.takeStock()
	w.lie(p)
	return nil
}

// replaceCounter replaces the counter several times, and it keeps its count. Then it replaces the
// counter by one with another layout, which restarts the count, and undoes this.
func (w *workshop) replaceCounter(p *sim.Process) {
	for range 3 {
		p.Runtime().Sleep(context.Background(), 2*time.Millisecond)
		if _, kept := w.load(0, "counter", program.Spec{ID: counterID, Replace: true, Start: true}); !kept {
			w.violate("a counter of the same layout has lost its data")
		}
	}
	t := w.table(0)
	key, _, err := t.Prepare(program.Spec{Module: workshopModules()["counter, another layout"], ID: counterID,
		Replace: true, Start: true})
	if err == nil {
		_, _, err = t.Commit(key)
	}
	if err == nil {
		err = t.Undo(key)
	}
	if err != nil {
		w.violate("replace and undo: %v", err)
	}
}

// secondFilter tries to add a filter that passes everything in front of the guarded process, in
// addition to the existing filter. It also replaces the existing filter by itself, with and
// without the name of the process. Messages that must not pass must not pass meanwhile: the
// guarded process checks this.
func (w *workshop) secondFilter(p *sim.Process) {
	sieve := program.Spec{Module: workshopModules()["sieve"], ID: sieveID, Start: true, Guards: guardedName, Trigger: 1}
	if _, _, err := w.table(guarded).Load(sieve); !errors.Is(err, program.ErrGuarded) {
		w.violate("a second filter of a process: %v", err)
	}
	simulated.Turn(w.f, guarded)
	p.Runtime().Sleep(context.Background(), time.Millisecond)
	w.load(guarded, "filter", program.Spec{ID: filterID, Replace: true, Start: true, Guards: guardedName, Trigger: 1})
	p.Runtime().Sleep(context.Background(), time.Millisecond)
	w.load(guarded, "filter", program.Spec{ID: filterID, Replace: true, Start: true})
}

var errDead = errors.New("its NIC is not there")

// everywhere loads a program into all NICs while messages are in flight. On one NIC the program
// replaces the counter. One NIC dies after all have prepared the program: the error names this
// NIC, and the others are unchanged.
func (w *workshop) everywhere(p *sim.Process) {
	client, nics, _ := w.fabricClient(p, func(do string) {
		if do == ctl.ProgramCommit {
			w.f.StopNIC(mortal)
		}
	})
	dies := registry.NICID(nicID(mortal))
	module := workshopModules()["counter, another layout"]
	_, err := client.Load(context.Background(), nics, module.Encode(),
		deploy.Options{ID: uint32(counterID), Replace: true, Start: true})
	if !errors.Is(err, errDead) || !strings.Contains(err.Error(), dies.String()) {
		w.violate("a program was to go into all NICs, of which %v has died: %v", dies, err)
	}
	for host := range 2 {
		info, there := w.table(host).Info(counterID)
		if there != (host == 0) || there && info.Module.Hash() != workshopModules()["counter"].Hash() {
			w.violate("host %d has a program that did not go into all NICs", host)
		}
	}
}

// endless loads programs that never end by themselves. Each is stopped for its own reason.
func (w *workshop) endless(p *sim.Process) {
	ids := map[string]vm.ID{}
	for _, name := range []string{"spin", "again", "flood"} {
		ids[name], _ = w.load(0, name, program.Spec{Start: true})
	}
	for _, name := range []string{"spin", "again", "flood"} {
		nic := binary.LittleEndian.AppendUint64(nil, nicID(1))
		if err := simulated.Half(p).SendProgram(context.Background(), 0, uint32(ids[name]), 1, false, nic); err != nil {
			w.violate("send to %s: %v", name, err)
		}
	}
	p.Runtime().Sleep(context.Background(), 20*time.Millisecond)
	for name, want := range map[string]vm.Cause{"spin": vm.OutOfBudget, "again": vm.Recursion, "flood": vm.Flood} {
		info, _ := w.table(0).Info(ids[name])
		if name == "flood" && info.LastAbort == vm.OutOfBudget || name == "flood" && info.LastAbort == vm.SendRefused {
			want = info.LastAbort // each of its ends is an exhausted budget
		}
		if info.Running && name != "flood" || info.LastAbort != want {
			w.violate("%s was to be stopped for %v: running %v, last abort %v after %d activations", name, want,
				info.Running, info.LastAbort, info.Profile.Activations)
		}
		if err := w.table(0).Unload(ids[name]); err != nil {
			w.violate("%v", err)
		}
	}
}

// transfers makes a program deliver into a segment, and beyond its end.
func (w *workshop) transfers(p *sim.Process) {
	mem := vni.AlignedBytes(512 + program.SegmentTail)
	t := w.table(0)
	if err := t.AddSegment(5, mem); err != nil {
		w.violate("%v", err)
		return
	}
	id, _ := w.load(0, "beyond", program.Spec{Start: true})
	err := simulated.Half(p).SendProgram(context.Background(), 0, uint32(id), 1, true)
	if !errors.Is(err, proc.ErrProgramFailed) {
		w.violate("a transfer beyond a segment ended with %v", err)
	}
	if shown, _, _ := t.Log(id, 0); !slices.Equal(shown, []int64{1}) {
		w.violate("a program that transfers beyond a segment shows %v", shown)
	}
	if locks, _ := program.SegmentSync(mem); slices.Max(locks) != 0 {
		w.violate("a transfer has written over the locks of a segment")
	}
	if err := errors.Join(t.Unload(id), t.RemoveSegment(5)); err != nil {
		w.violate("%v", err)
	}
}

// finder sends to a program that was only on the NIC that has died. The fabric must no longer
// know it.
func (w *workshop) finder(p *sim.Process) {
	id, _ := w.load(0, "finder", program.Spec{Start: true})
	nic := binary.LittleEndian.AppendUint64(nil, nicID(mortal))
	if err := simulated.Half(p).SendProgram(context.Background(), 0, uint32(id), 1, true, nic); !errors.Is(err,
		proc.ErrProgramFailed) {
		w.violate("a program is found by name when its NIC has died: %v", err)
	}
}

// unguard removes the filter. Afterwards every message arrives.
func (w *workshop) unguard(p *sim.Process) {
	for n := range w.even {
		if !w.got[n] {
			w.violate("message %d to the guarded process has passed the filter, and has not come", n)
		}
	}
	w.open = true
	if err := w.table(guarded).Unload(filterID); err != nil {
		w.violate("%v", err)
	}
	simulated.Turn(w.f, guarded)
	w.next += 1 + w.next%2 // an odd number
	number := w.next
	b := binary.LittleEndian.AppendUint64(nil, uint64(number))
	ctx, cancel := p.Runtime().WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.Peer(weft.Name{App: "guarded"}).SendDelivered(ctx, 0, append(b, make([]byte, 8)...)); err != nil {
		w.violate("a message to a process whose filter has gone: %v", err)
	}
	p.Runtime().Sleep(context.Background(), 100*time.Millisecond)
	if !w.got[number] {
		w.violate("a message to a process whose filter has gone has not come")
	}
}

// takeStock compares what the programs show with what was sent, when nothing is in flight.
func (w *workshop) takeStock() {
	shown := map[int64]bool{}
	for host := range 3 {
		t := w.table(host)
		if host == mortal {
			continue
		}
		values, _, err := t.Log(echoID, 0)
		dripped, _, dripErr := t.Log(dripID, 0)
		if err := errors.Join(err, dripErr); err != nil {
			w.violate("%v", err)
		}
		for _, n := range append(values, dripped...) {
			switch {
			case n < 0 || !w.known[n]:
				w.violate("host %d shows %d, which was not sent so", host, n)
			case shown[n]:
				w.violate("message %d was handled twice", n)
			}
			shown[n] = true
		}
		for _, info := range t.List() {
			w.worked += info.Profile.Activations
		}
		for _, leak := range simulated.Engine(w.f, host).Leaks() {
			if !strings.Contains(leak, "guarded/0") { // it continues to receive
				w.violate("host %d: %s", host, leak)
			}
		}
	}
	for n, host := range w.sent {
		if !shown[n] && host != mortal {
			w.violate("message %d to host %d was not handled", n, host)
		}
	}
	counted, _, err := w.table(0).Log(counterID, 0)
	if err != nil || len(counted) > 0 && counted[len(counted)-1] != int64(len(counted)) {
		w.violate("the counter has counted to %v in %d messages, %v", counted[max(0, len(counted)-1):], len(counted),
			err)
	}
	w.compareRoom()
}

// compareRoom compares the room that each NIC believes to occupy on another NIC with the count of
// that NIC.
func (w *workshop) compareRoom() {
	for from := range 2 {
		taken, _ := w.table(from).Room(nicID(1 - from))
		_, owed := w.table(1 - from).Room(nicID(from))
		if taken != owed {
			w.violate("host %d believes %d bytes to be taken in host %d, which has %d to give back", from, taken,
				1-from, owed)
		}
	}
}

// lie makes host 0 send the beginnings of more messages than host 1 has room for.
func (w *workshop) lie(p *sim.Process) {
	for id := range uint32(40) {
		b := make([]byte, wire.ProgramLen+100)
		head := wire.Program{Program: uint32(echoID), Trigger: 1, ID: 1<<30 + id, Length: wire.MaxProgram}
		head.Put(b, 100)
		if !simulated.Engine(w.f, 0).Utter(nicID(1), b) {
			w.violate("nothing can be uttered")
			return
		}
		simulated.Turn(w.f, 0)
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	p.Runtime().Sleep(context.Background(), 100*time.Millisecond)
	if err := simulated.Engine(w.f, 1).Limits(); err != nil {
		w.violate("host 1, which is sent too much: %v", err)
	}
}
