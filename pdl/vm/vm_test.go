package vm_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/pdl/vm/mem"
)

var config = vm.Config{CodeWords: 4096, DataWords: 16384, Programs: 8, Budget: 100_000}

func compile(t testing.TB, src string) *prog.Module {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// handler returns a program with variables, whose trigger 1 runs body.
func handler(vars, body string) string {
	return "PROGRAM test: " + vars + " TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN " + body + " END; END;"
}

// one returns a fabric of one NIC.
func one(t testing.TB) (*mem.Fabric, *mem.NIC) {
	t.Helper()
	f := mem.NewFabric()
	n, err := f.Add(1, "one", config)
	if err != nil {
		t.Fatal(err)
	}
	return f, n
}

// load loads a program and starts it.
func load(t testing.TB, n *mem.NIC, id vm.ID, src string) {
	t.Helper()
	if _, err := n.Machine.Load(id, compile(t, src)); err != nil {
		t.Fatal(err)
	}
	if o := n.Machine.Start(id); o != vm.Awaiting {
		t.Fatalf("start: %v", o)
	}
}

func words(list ...int64) (b []byte) {
	for _, w := range list {
		b = binary.LittleEndian.AppendUint64(b, uint64(w))
	}
	return b
}

func (c *check) dispatch(trigger uint32, payload []byte) vm.Outcome {
	return c.m.Dispatch(&vm.Message{Program: 1, Trigger: trigger, Source: 7, Payload: payload})
}

type check struct {
	*testing.T
	m *vm.Machine
}

func (c *check) variable(name string, want ...int64) {
	c.Helper()
	got, err := c.m.Variable(1, name)
	if err != nil || !slices.Equal(got, want) {
		c.Errorf("%s is %v, %v; want %v", name, got, err, want)
	}
}

func (c *check) profile() vm.Profile {
	info, _ := c.m.Info(1)
	return info.Profile
}

func TestMessagesFindTheirTrigger(t *testing.T) {
	_, n := one(t)
	c := &check{t, n.Machine}
	load(t, n, 1, `PROGRAM p: VAR sum, by; TRIGGERS 30, 10, 20; BEGIN sum = 1 END;
		MESSAGE 30: BEGIN sum = sum * 30 END;
		MESSAGE 10: BEGIN sum = sum + PACKET[0]; by = SOURCE; PASS END BEGIN sum = 0 END;
		MESSAGE 20: BEGIN sum = sum + PACKETLEN; DROP END; END;`)
	for _, d := range []struct {
		trigger uint32
		payload []byte
		want    vm.Outcome
		sum     int64
	}{{10, words(5), vm.Passed, 6}, {20, make([]byte, 13), vm.Dropped, 19}, {30, nil, vm.Awaiting, 570}, {40, nil, vm.NoTrigger, 570}} {
		if o := c.dispatch(d.trigger, d.payload); o != d.want {
			t.Errorf("trigger %d: %v, want %v", d.trigger, o, d.want)
		}
		c.variable("sum", d.sum)
	}
	c.variable("by", 7)
	if o := n.Machine.Dispatch(&vm.Message{Program: 2}); o != vm.NoProgram || n.Machine.Unknown() != 1 {
		t.Errorf("a message to a program that is not there: %v, and %d were counted", o, n.Machine.Unknown())
	}
	if p := c.profile(); p.Activations != 4 || p.Refused != 1 {
		t.Errorf("%+v", p)
	}
}

// PANIC-30.
func TestAwaitEndsTheActivationAndTheNextBeginsAtTheTop(t *testing.T) {
	_, n := one(t)
	c := &check{t, n.Machine}
	load(t, n, 1, handler("VAR a, b;", "a = a + 1; IF a < 3 THEN BEGIN AWAIT; b = 99 END; b = b + 1"))
	for range 4 {
		c.dispatch(1, nil)
	}
	c.variable("a", 4)
	c.variable("b", 2)
}

func TestAStoppedProgramTakesNoMessages(t *testing.T) {
	_, n := one(t)
	c := &check{t, n.Machine}
	if _, err := n.Machine.Load(1, compile(t, handler("", "STOP"))); err != nil {
		t.Fatal(err)
	}
	if o := c.dispatch(1, nil); o != vm.Inactive {
		t.Errorf("before it is started: %v", o)
	}
	if o := n.Machine.Start(1); o != vm.Awaiting {
		t.Fatal(o)
	}
	if o := n.Machine.Start(1); o != vm.Inactive {
		t.Errorf("started a second time: %v", o)
	}
	if o := c.dispatch(1, nil); o != vm.Stopped {
		t.Errorf("at STOP: %v", o)
	}
	if o := c.dispatch(1, nil); o != vm.Inactive {
		t.Errorf("behind STOP: %v", o)
	}
	if p := c.profile(); p.Refused != 2 {
		t.Errorf("%d messages were refused, want 2", p.Refused)
	}
}

func TestErrorsEndTheActivationAndAreCountedByCause(t *testing.T) {
	for _, e := range []struct {
		body  string
		cause vm.Cause
	}{
		{"a = 1 / (a - 1)", vm.DivideByZero},
		{"a = 1 % (a - 1)", vm.DivideByZero},
		{"a = v[a + 3]", vm.OutOfArray},
		{"a = v[a - 2]", vm.OutOfArray},
		{"v[a + 0x7fffffffffffffff] = 1", vm.OutOfArray},
		{"a = 3 + v[a * 4]", vm.OutOfArray},
		{"a = 0; WHILE a < 9 DO BEGIN c = c + v[a]; a = a + 1 END", vm.OutOfArray},
		{"a = PACKET[a + 1]", vm.OutOfPacket},
		{"a = PACKET[9]", vm.OutOfPacket},
		{"a = PACKETBYTE[a + 12]", vm.OutOfPacket},
		{"a = 1 + PACKETBYTE[a - 2]", vm.OutOfPacket},
		{"SEND v[a] LEN a * 25 AS 1 TO 1", vm.BadLength},
		{"SEND v[a] LEN 0 - a AS 1 TO 1", vm.BadLength},
		{"SEND v[a * 4] LEN 1 AS 1 TO 1", vm.OutOfArray},
		{"SEND big[0] LEN 16384 + a AS 1 TO 1", vm.BadLength},
		{"SEND PACKETBYTE[a] LEN 13 AS 1 TO 1", vm.OutOfPacket},
		{"SEND PACKET[a << 61] LEN 0 AS 1 TO 1", vm.OutOfPacket},
		{"SEND v[a] LEN 8 AS 0 - a TO 1", vm.BadAddress},
		{"SEND v[a] LEN 8 AS 1 TO a - 1", vm.BadAddress},
		{"SEND v[a] LEN 8 AS 1 TO a << 32", vm.BadAddress},
		{"SEND v[a] LEN 8 AS 1 TO nobody", vm.UnknownName},
		{"SEND v[a] LEN 8 AS 1 TO 1 AT nowhere", vm.UnknownName},
		{"DELIVER v[a] OFFSET 0 INTO 9 LEN 8", vm.SegmentRefused},
		{"DELIVER v[a] OFFSET 9 INTO 1 LEN 8", vm.SegmentRefused},
		{"DELIVER v[a] OFFSET 0 - a INTO 1 LEN 8", vm.SegmentRefused},
		{"GET v[a] OFFSET 0 FROM 9 LEN 8", vm.SegmentRefused},
		{"GET v[0] OFFSET 0 FROM PACKET LEN 13 * a", vm.OutOfPacket},
		{"WHILE 1 DO b = b + 1", vm.OutOfBudget},
	} {
		_, n := one(t)
		c := &check{t, n.Machine}
		n.Segment(1, 16)
		load(t, n, 1, handler("VAR a, b, c, v[4], big[3000];", "\na = 1; b = 7;\n"+e.body+";\nb = 8"))
		if o := c.dispatch(1, make([]byte, 12)); o != vm.Aborted {
			t.Errorf("%s: %v", e.body, o)
			continue
		}
		p, info := c.profile(), first(n.Machine.Info(1))
		if p.Aborts[e.cause] != 1 || p.Aborted() != 1 || info.LastAbort != e.cause || p.LastLine != 3 {
			t.Errorf("%s: aborts %v, the last in line %d for %v; want one in line 3 for %v", e.body, p.Aborts, p.LastLine, info.LastAbort, e.cause)
		}
		if e.cause != vm.OutOfBudget {
			c.variable("b", 7)
		}
		want := vm.Aborted // the message that is sent again: the program goes on
		if e.cause == vm.OutOfBudget {
			want = vm.Inactive
		}
		if o := c.dispatch(1, make([]byte, 12)); o != want || info.Running != (want == vm.Aborted) {
			t.Errorf("%s: the next message: %v, want %v", e.body, o, want)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

func TestAnErrorDropsWhatAFilterJudges(t *testing.T) {
	for o := vm.Awaiting; o <= vm.Busy; o++ {
		if want := o != vm.Dropped && o != vm.Aborted; o.Passes() != want {
			t.Errorf("%v passes: %v", o, o.Passes())
		}
	}
}

func TestAnErrorInTheInitialisationStopsTheProgram(t *testing.T) {
	_, n := one(t)
	if _, err := n.Machine.Load(1, compile(t, "PROGRAM p: VAR a; TRIGGERS 1; BEGIN a = 1 / a END; MESSAGE 1: BEGIN END; END;")); err != nil {
		t.Fatal(err)
	}
	if o := n.Machine.Start(1); o != vm.Aborted {
		t.Errorf("start: %v", o)
	}
	if o := n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 1}); o != vm.Inactive {
		t.Errorf("a message: %v", o)
	}
}

// So does an error after a wait, or while a transfer is in progress.
func TestAnErrorInAnInitialisationThatWaitsStopsTheProgram(t *testing.T) {
	for _, init := range []string{"GET v OFFSET 0 FROM 1 LEN 8; x = 1 / v", "GET v OFFSET 0 FROM 1 LEN 8; x = 1 / x"} {
		f, n := one(t)
		f.Late = true
		n.Segment(1, 8)
		if _, err := n.Machine.Load(1, compile(t, "PROGRAM test: VAR v, x; TRIGGERS 1; BEGIN "+init+" END; MESSAGE 1: BEGIN END; END;")); err != nil {
			t.Fatal(err)
		}
		n.Machine.Start(1)
		f.Run(10)
		if info, _ := n.Machine.Info(1); info.Running || info.LastAbort != vm.DivideByZero {
			t.Errorf("%s: running %v, %v", init, info.Running, info.LastAbort)
		}
		if o := n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 1}); o != vm.Inactive {
			t.Errorf("%s: a message: %v", init, o)
		}
	}
}

// The budget is exact. With the number of instructions that an activation needs, it ends
// normally; with one less, it does not. No more than the budget is ever executed.
func TestTheBudgetIsExact(t *testing.T) {
	for _, body := range []string{
		"",
		"WHILE i < 10 DO i = i + 1",
		"WHILE i < 4 DO BEGIN s = s + v[i]; i = i + 1 END; j = 4; i = 0; WHILE i < j DO BEGIN s = s + v[i]; i = i + 1 END",
		"WHILE 10 > i DO BEGIN IF i % 2 THEN s = s + v[i & 3] ELSE BEGIN s = s - 1; s = s * 2 END; i = i + 1 END",
		"WHILE i < 5 DO BEGIN j = 0; WHILE j < i DO BEGIN s = s + j; j = j + 1 END; i = i + 1 END; DISPLAY s; s = CLOCK",
		"WHILE i < 3 DO BEGIN IF i = 1 THEN BEGIN s = 1; s = 2; s = 3; s = 4; s = 5; s = 6; s = 7; s = 8 END; i = i + 1 END",
	} {
		m := compile(t, handler("VAR i, j, s, v[4];", body))
		run := func(budget int) (vm.Outcome, vm.Profile) {
			f := mem.NewFabric()
			cfg := config
			cfg.Budget = budget
			n, err := f.Add(1, "one", cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.Machine.Load(1, m); err != nil {
				t.Fatal(err)
			}
			if o := n.Machine.Start(1); o != vm.Awaiting {
				t.Fatal(o)
			}
			o := n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 1})
			p := first(n.Machine.Info(1)).Profile
			p.Instructions-- // the one of the initialisation
			return o, p
		}
		o, p := run(100_000)
		if o != vm.Awaiting {
			t.Fatalf("%s: %v", body, o)
		}
		need := int(p.Instructions)
		for budget := 1; budget < need; budget++ {
			if o, p := run(budget); o != vm.Aborted || p.Aborts[vm.OutOfBudget] != 1 || int(p.Instructions) != budget {
				t.Fatalf("%s: with %d of %d instructions: %v after %d", body, budget, need, o, p.Instructions)
			}
		}
		if o, p := run(need); o != vm.Awaiting || int(p.Instructions) != need {
			t.Errorf("%s: with %d instructions: %v after %d", body, need, o, p.Instructions)
		}
	}
}

func TestCopyingIsChargedToTheBudget(t *testing.T) {
	_, n := one(t)
	c := &check{t, n.Machine}
	n.Segment(1, 8000)
	load(t, n, 1, handler("VAR v[1000];", "WHILE 1 DO DELIVER v[0] OFFSET 0 INTO 1 LEN 8000"))
	if o := c.dispatch(1, nil); o != vm.Aborted {
		t.Fatal(o)
	}
	if got := len(n.Delivered); got > 1+config.Budget/(8000/64) || got < config.Budget/(8000/64)-100 {
		t.Errorf("%d deliveries of 8,000 bytes within a budget of %d", got, config.Budget)
	}
}

const pingSource = `PROGRAM ping: VAR sent[5], back[5], i, msg[8]; TRIGGERS 10;
BEGIN msg[0] = 42; sent[0] = CLOCK; SEND msg[0] LEN 64 AS 12 TO pong AT "two" END;
MESSAGE 10: BEGIN
	back[i] = CLOCK; i = i + 1;
	IF i < 5 THEN BEGIN sent[i] = CLOCK; SEND msg[0] LEN 64 AS 12 TO 415 AT 0:0:0:0:0:0:0:2; AWAIT END;
	i = 0; WHILE i < 5 DO BEGIN DISPLAY sent[i]; DISPLAY back[i]; i = i + 1 END;
	STOP
END; END;`

const pongSource = `PROGRAM pong: TRIGGERS 12; BEGIN END; MESSAGE 12: BEGIN SEND PACKET[0] LEN PACKETLEN AS 10 TO 7 AT SOURCE END; END;`

// two returns two NICs, with ping on one and pong on the other.
func two(t testing.TB, ping string) (*mem.Fabric, *mem.NIC, *mem.NIC) {
	t.Helper()
	f, a := one(t)
	b, err := f.Add(2, "two", config)
	if err != nil {
		t.Fatal(err)
	}
	load(t, b, 415, pongSource)
	load(t, a, 7, ping)
	return f, a, b
}

func TestProgramsOnTwoNICsPlayPingPong(t *testing.T) {
	f, a, b := two(t, pingSource)
	if got := f.Run(100); got != 10 {
		t.Errorf("%d messages were handled, want 10", got)
	}
	if len(a.Displayed) != 10 || !slices.IsSortedFunc(a.Displayed, func(x, y mem.Value) int { return int(x.Value - y.Value) }) {
		t.Errorf("displayed %v, want 10 times in order", a.Displayed)
	}
	if len(b.Sent) != 5 || b.Sent[0].Payload[0] != 42 || len(b.Sent[0].Payload) != 64 {
		t.Errorf("pong sent %v", b.Sent)
	}
	if info, _ := a.Machine.Info(7); info.Running {
		t.Error("ping runs behind its STOP")
	}
}

// sample returns one of the two programs of the PANIC paper, which are not part of this project.
func sample(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("WEFT_PDL_SAMPLES")
	if dir == "" {
		t.Skip("WEFT_PDL_SAMPLES does not name the folder with the paper's programs ping.pdl and delivertest.pdl")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// PANIC-37, Fig. 4: the program runs a hundred exchanges, and then shows 200 times in the order
// in which they were taken.
func TestThePapersPingRuns(t *testing.T) {
	f, a := one(t)
	b, err := f.Add(0x60dd7fff8c, "peer", config) // the address that stands in the program
	if err != nil {
		t.Fatal(err)
	}
	load(t, b, 415, pongSource)
	load(t, a, 7, sample(t, "ping.pdl"))
	f.Run(1000)
	if len(a.Displayed) != 200 || !slices.IsSortedFunc(a.Displayed, func(x, y mem.Value) int { return int(x.Value - y.Value) }) {
		t.Errorf("displayed %v, want 200 times in order", a.Displayed)
	}
}

// PANIC-37, Fig. 6.
func TestThePapersDelivertestRuns(t *testing.T) {
	_, n := one(t)
	segment := n.Segment(2, 100)
	load(t, n, 1, sample(t, "delivertest.pdl"))
	if o := n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 10}); o != vm.Awaiting {
		t.Error(o)
	}
	if want := append(words(2, 3, 4), make([]byte, 76)...); string(segment) != string(want) {
		t.Errorf("the segment has %x", segment)
	}
}

// PANIC-39: during a GET the program goes on until a statement needs the result.
func TestTransfersOverlapWithWhatDoesNotDependOnThem(t *testing.T) {
	f, n := one(t)
	f.Late = true
	c := &check{t, n.Machine}
	copy(n.Segment(1, 8), words(5))
	load(t, n, 1, handler("VAR a, b, i;", "GET a OFFSET 0 FROM 1 LEN 8; WHILE i < 10 DO i = i + 1; b = a + i"))
	if o := c.dispatch(1, nil); o != vm.Waiting {
		t.Fatal(o)
	}
	c.variable("i", 10)
	c.variable("b", 0)
	if o := c.dispatch(1, nil); o != vm.Busy {
		t.Errorf("a message in the middle of an activation: %v", o)
	}
	if err := n.Machine.Unload(1); !errors.Is(err, vm.ErrInUse) {
		t.Errorf("unload in the middle of an activation: %v", err)
	}
	f.Run(1)
	c.variable("b", 15)
	if o := n.Machine.Finish(1, true); o != vm.Inactive {
		t.Errorf("an end of nothing: %v", o)
	}
}

func TestATransferThatFailsAbortsWhereItIsWaitedFor(t *testing.T) {
	f, n := one(t)
	f.Late = true
	c := &check{t, n.Machine}
	n.Segment(1, 8)
	for _, body := range []string{"GET a OFFSET 0 FROM 1 LEN 8; b = 1; b = a + 2", "DELIVER a OFFSET 0 INTO 1 LEN 8; b = 1"} {
		n.Machine.Unload(1)
		load(t, n, 1, handler("VAR a, b;", body))
		if o := c.dispatch(1, nil); o != vm.Waiting {
			t.Fatal(o)
		}
		if o := n.Machine.Finish(1, false); o != vm.Aborted || c.profile().Aborts[vm.SegmentRefused] != 1 {
			t.Errorf("%s: %v, %v", body, o, c.profile())
		}
		c.variable("b", 1)
	}
}

func TestAnAbortedActivationKeepsItsDataUntilItsTransfersHaveEnded(t *testing.T) {
	f, n := one(t)
	f.Late = true
	c := &check{t, n.Machine}
	n.Segment(1, 8)
	load(t, n, 1, handler("VAR a, b;", "GET a OFFSET 0 FROM 1 LEN 8; b = 1 / b"))
	if o := c.dispatch(1, nil); o != vm.Aborted {
		t.Fatal(o)
	}
	if o := c.dispatch(1, nil); o != vm.Busy {
		t.Errorf("a message while the transfer is under way: %v", o)
	}
	if err := n.Machine.Unload(1); !errors.Is(err, vm.ErrInUse) {
		t.Errorf("unload while the transfer is under way: %v", err)
	}
	if o := n.Machine.Finish(1, true); o != vm.Busy {
		t.Error(o)
	}
	if o := c.dispatch(1, nil); o != vm.Aborted {
		t.Errorf("a message behind it: %v", o)
	}
}

// PANIC-12: if memory is fragmented, programs are moved. They do not notice, and lose nothing.
func TestProgramsAreMovedToMakeRoom(t *testing.T) {
	f := mem.NewFabric()
	m := compile(t, handler("VAR n, v[250];", "n = n + 1; v[n] = n * n"))
	n, err := f.Add(1, "one", vm.Config{CodeWords: 4 * len(m.Code), DataWords: 4 * m.DataWords, Programs: 8, Budget: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for id := vm.ID(1); id <= 4; id++ {
		if _, err := n.Machine.Load(id, m); err != nil {
			t.Fatal(err)
		}
		n.Machine.Start(id)
		for range id {
			n.Machine.Dispatch(&vm.Message{Program: id, Trigger: 1})
		}
	}
	if _, err := n.Machine.Load(5, m); !errors.Is(err, vm.ErrNoRoom) || !strings.Contains(err.Error(), "there are 0 and 0") {
		t.Errorf("a fifth program: %v", err)
	}
	for _, id := range []vm.ID{1, 3} {
		if err := n.Machine.Unload(id); err != nil {
			t.Fatal(err)
		}
	}
	large := compile(t, handler("VAR n, v[506];", "n = n + 1; v[n] = n * n; v[0] = v[n] + 1; n = n * 1"))
	if large.DataWords <= m.DataWords || large.DataWords > 2*m.DataWords || len(large.Code) <= len(m.Code) {
		t.Fatalf("the large program has %d and %d words, the others %d and %d", len(large.Code), large.DataWords, len(m.Code), m.DataWords)
	}
	if _, err := n.Machine.Load(6, large); err != nil {
		t.Fatal(err)
	}
	if o := n.Machine.Start(6); o != vm.Awaiting {
		t.Fatal(o)
	}
	for _, id := range []vm.ID{2, 4} {
		if o := n.Machine.Dispatch(&vm.Message{Program: id, Trigger: 1}); o != vm.Awaiting {
			t.Errorf("program %d: %v", id, o)
		}
		v, err := n.Machine.Variable(id, "v")
		for i := range int64(id) + 1 {
			if err != nil || v[i+1] != (i+1)*(i+1) {
				t.Fatalf("program %d has %v (%v)", id, v, err)
			}
		}
	}
	if v, _ := n.Machine.Variable(6, "v"); slices.Max(v) != 0 {
		t.Error("a new program finds what others left in its memory")
	}
	if got := n.Machine.IDs(); !slices.Equal(got, []vm.ID{2, 4, 6}) {
		t.Errorf("programs %v", got)
	}
}

func TestNumbersAreGivenAndKept(t *testing.T) {
	_, n := one(t)
	m := compile(t, handler("", ""))
	if id, err := n.Machine.Load(2, m); id != 2 || err != nil {
		t.Error(id, err)
	}
	if _, err := n.Machine.Load(2, m); !errors.Is(err, vm.ErrTaken) {
		t.Error(err)
	}
	for _, want := range []vm.ID{1, 3, 4, 5, 6, 7, 8} {
		if id, err := n.Machine.Load(0, m); id != want || err != nil {
			t.Error(id, err)
		}
	}
	if _, err := n.Machine.Load(0, m); !errors.Is(err, vm.ErrNoRoom) {
		t.Error(err)
	}
	if err := n.Machine.Unload(99); !errors.Is(err, vm.ErrNoProgram) {
		t.Error(err)
	}
	bad := *m
	bad.Code = []prog.Word{0}
	if _, err := n.Machine.Load(9, &bad); !errors.Is(err, prog.ErrUnsafe) {
		t.Error(err)
	}
}

func TestAReplacedProgramKeepsItsDataIfTheLayoutsMatch(t *testing.T) {
	_, n := one(t)
	c := &check{t, n.Machine}
	load(t, n, 1, handler("VAR a, v[3];", "a = a + 1; v[a] = a"))
	c.dispatch(1, nil)
	if kept, err := n.Machine.Replace(1, compile(t, handler("VAR a, v[3];", "a = a + 10"))); !kept || err != nil {
		t.Fatal(kept, err)
	}
	if o := c.dispatch(1, nil); o != vm.Awaiting {
		t.Error(o)
	}
	c.variable("a", 11)
	c.variable("v", 0, 1, 0)
	if kept, err := n.Machine.Replace(1, compile(t, handler("VAR a, w[3];", "a = a + 100"))); kept || err != nil {
		t.Fatal(kept, err)
	}
	if o := c.dispatch(1, nil); o != vm.Inactive {
		t.Errorf("another layout, not started: %v", o)
	}
	c.variable("a", 0)
	if p := c.profile(); p.Activations != 3 {
		t.Errorf("the profile begins anew: %+v", p)
	}
	if _, err := n.Machine.Replace(5, compile(t, handler("", ""))); !errors.Is(err, vm.ErrNoProgram) {
		t.Error(err)
	}
}

func TestLocksAndFlags(t *testing.T) {
	_, n := one(t)
	c := &check{t, n.Machine}
	load(t, n, 1, handler("VAR a;", "IF LOCK(3) THEN BEGIN CLEAR LOCK 3; SET FLAG a + 1; a = a + 1 END"))
	c.dispatch(1, nil)
	if got := n.Flags(); len(got) != 0 {
		t.Errorf("flags %v", got)
	}
	n.SetLock(3)
	c.dispatch(1, nil)
	c.dispatch(1, nil)
	if got := n.Flags(); !slices.Equal(got, []int64{1}) || n.Lock(3) {
		t.Errorf("flags %v, lock 3 is set: %v", got, n.Lock(3))
	}
}

// PANIC-21: in place, into variables, into a segment.
func TestThePacketIsReadInThreeWays(t *testing.T) {
	_, n := one(t)
	c := &check{t, n.Machine}
	segment := n.Segment(1, 16)
	load(t, n, 1, handler("VAR a, b, v[3];", `a = PACKET[0]; b = PACKET[1] + PACKETBYTE[8];
		GET v[1] OFFSET 3 FROM PACKET LEN 9; DELIVER PACKETBYTE[2] OFFSET 1 INTO 1 LEN PACKETLEN - 2`))
	if o := c.dispatch(1, []byte("abcdefghijkl")); o != vm.Awaiting {
		t.Fatal(o)
	}
	le := func(s string) int64 { return int64(binary.LittleEndian.Uint64([]byte(s))) }
	c.variable("a", le("abcdefgh"))
	c.variable("b", le("ijkl\x00\x00\x00\x00")+'i')
	c.variable("v", 0, le("defghijk"), 'l')
	if string(segment) != "\x00cdefghijkl\x00\x00\x00\x00\x00" {
		t.Errorf("the segment has %q", segment)
	}
}

// Each pair does what its two instructions do, with any fields, with a jump to either, and
// wherever the budget ends.
func TestPairsDoWhatTheirTwoDo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pairs := 0
	for op := prog.Op(1); ; op++ {
		e, ok := op.Effect()
		if !ok {
			break
		}
		if e.Then == 0 {
			continue
		}
		pairs++
		second, _ := e.Then.Effect()
		ran := 0
		for range 20_000 {
			if ran == 1000 {
				break
			}
			word := func() uint64 { // few registers, small numbers, near targets
				return uint64(random.IntN(6))<<8 | uint64(random.IntN(6))<<16 | uint64(random.IntN(6))<<24 | uint64(random.IntN(8))<<32 | uint64(random.IntN(6))<<48
			}
			alone := firstOfPair(t, op)
			one, two := fitting(e, word()), word()
			if back := random.IntN(4); back > 0 { // a jump back, often to the pair itself
				two = two&^(0xffff<<32) | uint64(0xffff-back%3)<<32
			}
			if e.Name == "addx+" && ran%2 == 0 { // a loop that adds up an array, or nearly one
				i := uint64(random.IntN(6))
				one = one&^(0xffff<<8|0xff<<24|0xffff<<48) | 2<<8 | 2<<16 | i<<24 | uint64(random.IntN(40))<<48
				if random.IntN(4) > 0 { // the array does not overlap the other registers
					one = one&^(0xffff<<32) | 8<<32
				}
				two = two&^(0xff<<8|0xff<<24|0xffff<<32) | i<<8 | uint64(random.IntN(3))<<24 | 0xfffe<<32
			}
			two = fitting(second, two)
			code := func(first prog.Op) *prog.Module {
				m := &prog.Module{Name: "pair", DataWords: 300, Triggers: []prog.Trigger{{Number: 1, Entry: 0}, {Number: 2, Entry: 5}}}
				for i := range 4 {
					m.Code = append(m.Code, prog.Make(prog.Addi, uint8(i+2), uint8(i+2), 0, int32(3*i-2)))
				}
				m.Code = append(m.Code, prog.Word(one)|prog.Word(first), prog.Word(two)|prog.Word(e.Then))
				for range 9 {
					m.Code = append(m.Code, prog.Make(prog.Addi, 7, 7, 0, 1))
				}
				m.Code = append(m.Code, prog.Make(prog.Await, 0, 0, 0, 0))
				m.Init = len(m.Code) - 1
				return m
			}
			a, b := code(alone), code(op)
			if b.Verify() != nil {
				continue
			}
			ran++
			budget := 1 + random.IntN(40)
			if got, want := after(t, b, budget), after(t, a, budget); got != want {
				t.Fatalf("%v %v, budget %d:\n%s\nwant\n%s\n%s", alone, e.Then, budget, got, want, b.Disassemble(""))
			}
		}
		if ran < 1000 {
			t.Errorf("%s%v: only %d programs could be run", e.Name, e.Then, ran)
		}
	}
	if pairs < 10 {
		t.Errorf("%d pairs; the search must be broken", pairs)
	}
}

// fitting clears the opcode of a word and the fields that the opcode e does not use.
func fitting(e *prog.Effect, w uint64) uint64 {
	w &^= 0xff
	if e.A == prog.Unused {
		w &^= 0xff << 8
	}
	if e.B == prog.Unused {
		w &^= 0xff << 16
	}
	if e.C == prog.Unused && e.B != prog.Half {
		w &^= 0xff << 24
	}
	switch e.Imm {
	case prog.Unused:
		w &= 1<<32 - 1
	case prog.Shift:
		w &= 1<<38 - 1
	case prog.Target:
		w = w&(1<<32-1) | uint64(uint32(int32(int16(w>>32))))<<32
	}
	return w
}

// firstOfPair returns the opcode of a pair's first instruction.
func firstOfPair(t *testing.T, pair prog.Op) prog.Op {
	e, _ := pair.Effect()
	for op := prog.Op(1); op < pair; op++ {
		if f, _ := op.Effect(); f.Name+"+" == e.Name && f.Then == 0 {
			return op
		}
	}
	t.Fatalf("%s has no first", e.Name)
	return 0
}

// after runs a program's two triggers several times and returns everything that the program
// left.
func after(t *testing.T, m *prog.Module, budget int) string {
	machine, err := vm.New(vm.Config{Host: quiet{}, CodeWords: 100, DataWords: 300, Programs: 1, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	m.Variables = []prog.Var{{Name: "all", Range: prog.Range{Base: 0, Len: 300}}}
	if _, err := machine.Load(1, m); err != nil {
		t.Fatal(err)
	}
	machine.Start(1)
	var said []string
	for n := range uint32(6) {
		said = append(said, machine.Dispatch(&vm.Message{Program: 1, Trigger: 1 + n%2, Payload: []byte("abcdefgh")}).String())
	}
	v, _ := machine.Variable(1, "all")
	info, _ := machine.Info(1)
	return fmt.Sprint(said, info.Profile, v)
}

func TestAnActivationAllocatesNothing(t *testing.T) {
	f, a, b := two(t, handler("VAR n, v[10];", `n = n + PACKET[0] % 7; v[n & 7] = CLOCK; SEND v[0] LEN 64 AS 12 TO 415 AT 2; DELIVER v[0] OFFSET 0 INTO 1 LEN 80;
		GET v[0] OFFSET 0 FROM 1 LEN 80; IF LOCK(1) THEN CLEAR LOCK 1; SET FLAG 2; DISPLAY n; n = v[0] / 0x7fffffffffff; n = 1 / n`))
	_, _ = f, b
	quiet := quiet{}
	m, err := vm.New(vm.Config{Host: quiet, CodeWords: 1000, DataWords: 1000, Programs: 1, Budget: 1000})
	if err != nil {
		t.Fatal(err)
	}
	info, _ := a.Machine.Info(7)
	if _, err := m.Load(1, info.Module); err != nil {
		t.Fatal(err)
	}
	m.Start(1)
	msg := &vm.Message{Program: 1, Trigger: 1, Payload: make([]byte, 64)}
	if n := testing.AllocsPerRun(100, func() {
		if o := m.Dispatch(msg); o != vm.Aborted {
			t.Fatal(o)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// quiet is a host that does nothing.
type quiet struct{}

func (quiet) Members(vm.ID, string, func(vm.Destination)) {}

func (quiet) Clock() int64                                         { return 1 }
func (quiet) Lookup(prog.SymbolKind, string, uint64) (int64, bool) { return 1, true }
func (quiet) Send(vm.ID, vm.Destination, []byte) bool              { return true }
func (quiet) Deliver(vm.Transfer, []byte) vm.Status                { return vm.Done }
func (quiet) Get(vm.Transfer, []byte) vm.Status                    { return vm.Done }
func (quiet) Lock(int64) bool                                      { return true }
func (quiet) ClearLock(int64)                                      {}
func (quiet) SetFlag(int64)                                        {}
func (quiet) Display(vm.ID, int64)                                 {}

func TestWhatAMachineNeedsIsSaid(t *testing.T) {
	for _, cfg := range []vm.Config{{}, {Host: quiet{}, CodeWords: 1, DataWords: 255, Programs: 1, Budget: 1}, {Host: quiet{}, CodeWords: 1, DataWords: 256, Programs: 0, Budget: 1}} {
		if _, err := vm.New(cfg); err == nil || !strings.Contains(err.Error(), "expected 1, 256, 1, 1 and more, and a host") {
			t.Error(err)
		}
	}
}

func TestChargedTimeStandsInTheProfile(t *testing.T) {
	_, n := one(t)
	load(t, n, 1, handler("", ""))
	n.Machine.Charge(1, 30)
	n.Machine.Charge(1, 12)
	n.Machine.Charge(2, 1)
	if info, ok := n.Machine.Info(1); !ok || info.Profile.Time != 42 {
		t.Errorf("%+v", info)
	}
}

// A module that the verifier accepts does no harm: it stays within its memory and its budget.
func FuzzRun(f *testing.F) {
	for _, src := range []string{pingSource, pongSource, handler("VAR a, v[30];", "WHILE a < 30 DO BEGIN v[a] = PACKETBYTE[a]; a = a + 1 END; GET v[1] OFFSET 0 FROM 1 LEN 16; DELIVER v[3] OFFSET a INTO 1 LEN 8; a = v[0]")} {
		m := compile(f, src)
		f.Add(binaryCode(m.Code), []byte("packet"))
	}
	neighbour := compile(f, handler("VAR v[300];", "v[0] = v[0] + 1"))
	f.Fuzz(func(t *testing.T, code, packet []byte) {
		m := &prog.Module{Name: "fuzz", DataWords: 300, Triggers: []prog.Trigger{{Number: 1}}, Names: []prog.Symbol{{Of: prog.NodeName, Name: "one"}}}
		for ; len(code) >= 8; code = code[8:] {
			m.Code = append(m.Code, prog.Word(binary.LittleEndian.Uint64(code)))
		}
		if m.Verify() != nil {
			return
		}
		fabric := mem.NewFabric()
		fabric.Late = len(packet)%2 == 0
		const budget = 1000
		n, err := fabric.Add(1, "one", vm.Config{CodeWords: len(m.Code) + 2*len(neighbour.Code), DataWords: 300 + 2*neighbour.DataWords, Programs: 3, Budget: budget})
		if err != nil {
			t.Fatal(err)
		}
		n.Segment(1, 100)
		for id, module := range []*prog.Module{neighbour, m, neighbour} {
			if _, err := n.Machine.Load(vm.ID(id+1), module); err != nil {
				t.Fatal(err)
			}
			if id != 1 {
				n.Machine.Start(vm.ID(id + 1))
			}
		}
		n.Machine.Start(2)
		n.Post(2, 1, packet)
		fabric.Run(20)
		info, _ := n.Machine.Info(2)
		if most := info.Profile.Activations * (budget + prog.MaxData*8/64); info.Profile.Instructions > most {
			t.Errorf("%d activations executed %d instructions", info.Profile.Activations, info.Profile.Instructions)
		}
		if info.Profile.Aborts[vm.OutOfBudget] == 0 && info.Profile.Instructions > info.Profile.Activations*budget {
			t.Errorf("%d activations executed %d instructions within a budget of %d each", info.Profile.Activations, info.Profile.Instructions, budget)
		}
		for _, id := range []vm.ID{1, 3} {
			other, _ := n.Machine.Info(id)
			v, _ := n.Machine.Variable(id, "v")
			if uint64(v[0]) != other.Profile.Activations-1 || slices.Max(v[1:]) != 0 || slices.Min(v[1:]) != 0 {
				t.Errorf("program %d was written to", id)
			}
		}
	})
}

func binaryCode(code []prog.Word) (b []byte) {
	for _, w := range code {
		b = binary.LittleEndian.AppendUint64(b, uint64(w))
	}
	return b
}

func ExampleMachine_Dispatch() {
	module, err := pdl.Compile("count.pdl", []byte("PROGRAM count: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN n = n + 1; DISPLAY n END; END;"))
	if err != nil {
		fmt.Println(err)
		return
	}
	nic, _ := mem.NewFabric().Add(1, "nic", vm.Config{CodeWords: 1000, DataWords: 1000, Programs: 1, Budget: 1000})
	id, _ := nic.Machine.Load(0, module)
	nic.Machine.Start(id)
	for range 2 {
		fmt.Println(nic.Machine.Dispatch(&vm.Message{Program: id, Trigger: 1}))
	}
	fmt.Println(nic.Displayed)
	// Output:
	// await
	// await
	// [{1 1} {1 2}]
}

// Audit notices programs whose data overlap.
func TestProgramsThatOverlapAreNoticed(t *testing.T) {
	c := config
	c.Host, c.Overlap = quiet{}, 1
	m, err := vm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for id := range vm.ID(2) {
		if err := m.Audit(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Load(1+id, compile(t, handler("VAR v;", "v = 1"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Audit(); err == nil || !strings.Contains(err.Error(), "programs 1 and 2 overlap") {
		t.Errorf("%v", err)
	}
}
