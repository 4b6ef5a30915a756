package ebpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	cilium "github.com/cilium/ebpf"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/vm"
)

const counter = "PROGRAM p: VAR n; TRIGGERS 1, 4000000000; BEGIN END; MESSAGE 1: BEGIN n = n + 1 END;\n" +
	"MESSAGE 4000000000: BEGIN n = n + 1; SEND PACKET[0] LEN PACKETLEN AS 1 TO 5 AT SOURCE END; END"

// startedKernel returns a program in the kernel that accepts messages.
func startedKernel(t *testing.T, src string) *kernel {
	t.Helper()
	b := newBench(t)
	k := b.load(compiled(t, src))
	t.Cleanup(k.close)
	if err := k.Start(nil); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kernel) variable(t *testing.T, name string) int64 {
	t.Helper()
	words, err := k.Words()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range k.Module().Variables {
		if v.Name == name {
			return words[v.Base]
		}
	}
	t.Fatal("no variable", name)
	return 0
}

// A frame that is damaged, forged or for another program goes on to the engine, which can report
// it. The program never sees it.
func TestAFrameThatIsNotInOrderActivatesNothing(t *testing.T) {
	k := startedKernel(t, counter)
	const frameAt = 42
	sealed := func(change func(frame []byte)) []byte {
		b := datagram(7, programID, 1, []byte("sixteen bytes..."))
		change(b[frameAt:])
		wire.Seal(b[frameAt:], len(b)-frameAt-wire.TagLen, cookie)
		return b
	}
	good := datagram(7, programID, 1, []byte("sixteen bytes..."))
	for what, frame := range map[string][]byte{
		"another program":       datagram(7, programID+1, 1, nil),
		"another kind":          sealed(func(b []byte) { b[0] = 1<<4 | byte(wire.KindData) }),
		"another version":       sealed(func(b []byte) { b[0] = 2<<4 | byte(wire.KindDatagram) }),
		"no tag":                sealed(func(b []byte) { b[1] = 0 }),
		"another magic":         sealed(func(b []byte) { b[2] = 'w' }),
		"another session":       sealed(func(b []byte) { b[4]++ }),
		"a piece":               sealed(func(b []byte) { b[wire.OuterLen+4] = 64 }),
		"a first piece":         sealed(func(b []byte) { b[wire.OuterLen+8]++ }),
		"another service":       sealed(func(b []byte) { b[wire.OuterLen+12]++ }),
		"a zero that is not":    sealed(func(b []byte) { b[wire.OuterLen+13]++ }),
		"another size":          sealed(func(b []byte) { b[wire.OuterLen+14]-- }),
		"cut short":             good[:len(good)-1],
		"too short for a frame": ethernet(make([]byte, 59)),
		"too long":              datagram(7, programID, 1, make([]byte, 2000)),
	} {
		if got := k.run(frame); got.verdict != xdpPass {
			t.Errorf("%s: verdict %d, expected %d", what, got.verdict, xdpPass)
		}
	}
	// Each byte of the frame counts, since the checksum covers all.
	for at := frameAt; at < len(good); at++ {
		bad := slices.Clone(good)
		bad[at] ^= 0x10
		if got := k.run(bad); got.verdict != xdpPass {
			t.Errorf("byte %d changed: verdict %d, expected %d", at-frameAt, got.verdict, xdpPass)
		}
	}
	if n := k.variable(t, "n"); n != 0 {
		t.Fatalf("the program was activated %d times", n)
	}
	if got := k.run(good); got.verdict != xdpDrop || k.variable(t, "n") != 1 {
		t.Errorf("the good one: verdict %d, %d activations", got.verdict, k.variable(t, "n"))
	}
}

func TestACounterIsTakenOnce(t *testing.T) {
	k := startedKernel(t, counter)
	for i, c := range []uint64{5, 5, 4, 6, 1, 6, 1 << 60, 7} {
		if got := k.run(datagram(c, programID, 1, nil)); got.verdict != xdpDrop {
			t.Errorf("frame %d: verdict %d", i, got.verdict)
		}
	}
	_, c, err := k.Profile()
	if n := k.variable(t, "n"); err != nil || n != 3 || c.Replays != 5 {
		t.Errorf("%d activations and %d replays, expected 3 and 5", n, c.Replays)
	}
}

// Messages of every length are read and answered. So the checksum is tested for whole words and
// for the bytes after them.
func TestRepliesOfEveryLength(t *testing.T) {
	k := startedKernel(t, counter)
	payload := make([]byte, limitOfTestRun)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	for n := range payload {
		if n > 100 && n%37 != 0 && n < len(payload)-8 {
			continue
		}
		got := k.send(4000000000, payload[:n])
		want := "send " + hex(payload[:n]) + " as 1 to 5"
		if got.verdict != xdpTx || k.opened(got.frame) != want {
			t.Fatalf("%d bytes: verdict %d, %s", n, got.verdict, k.opened(got.frame))
		}
	}
	// Each reply has its own counter.
	a, b := k.send(4000000000, nil), k.send(4000000000, nil)
	if x, y := binary.LittleEndian.Uint64(a.frame[50:]), binary.LittleEndian.Uint64(b.frame[50:]); y != x+1 || x < 1000 {
		t.Errorf("counters %d and %d", x, y)
	}
}

// limitOfTestRun is the room for a message when the kernel runs a program on a given frame,
// which must fit into a page.
const limitOfTestRun = 1400

func hex(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, v := range b {
		s.WriteByte(digits[v>>4])
		s.WriteByte(digits[v&15])
	}
	return s.String()
}

func TestAStoppedProgramAndOneWithoutTheTriggerRefuse(t *testing.T) {
	k := startedKernel(t, "PROGRAM p: VAR n; TRIGGERS 1, 2; BEGIN END; MESSAGE 1: BEGIN n = n + 1 END; MESSAGE 2: BEGIN STOP END; END")
	for _, trigger := range []uint32{1, 3, 2, 1, 1} {
		if got := k.send(trigger, nil); got.verdict != xdpDrop {
			t.Errorf("verdict %d", got.verdict)
		}
	}
	p, c, err := k.Profile()
	if err != nil || p.Activations != 2 || p.Refused != 3 || !c.Stopped || k.variable(t, "n") != 1 {
		t.Errorf("%+v, %+v, %v", p, c, err)
	}
	if err := k.Start(nil); err != nil {
		t.Fatal(err)
	}
	if k.send(1, nil); k.variable(t, "n") != 1 {
		t.Error("it takes no messages after another start")
	}
	if err := k.Start(make([]int64, 3)); err == nil || !strings.Contains(err.Error(), "3 words of data") {
		t.Errorf("data of another program: %v", err)
	}
}

// A frame may have passed the dispatcher before its program is withdrawn, and get its turn
// afterwards. The data was already taken, so the frame must not change it, nor be answered.
func TestAWithdrawnProgramChangesNothing(t *testing.T) {
	k := startedKernel(t, "PROGRAM p: VAR n; TRIGGERS 1, 2; BEGIN END; MESSAGE 1: BEGIN n = n + 1; SEND n LEN 8 AS 1 TO 2 AT SOURCE END; MESSAGE 2: BEGIN STOP END; END")
	if got := k.send(1, nil); got.verdict != xdpTx {
		t.Fatalf("verdict %d", got.verdict)
	}
	words, stopped, err := k.Withdraw()
	if err != nil || stopped {
		t.Fatal(stopped, err)
	}
	if got := k.send(1, nil); got.verdict != xdpDrop || k.variable(t, "n") != 1 {
		t.Errorf("verdict %d, and n is %d", got.verdict, k.variable(t, "n"))
	}
	if err := k.Start(words); err != nil {
		t.Fatal(err)
	}
	if got := k.send(1, nil); got.verdict != xdpTx || k.variable(t, "n") != 2 {
		t.Errorf("started again: verdict %d, and n is %d", got.verdict, k.variable(t, "n"))
	}
	k.send(2, nil)
	if _, stopped, err := k.Withdraw(); err != nil || !stopped {
		t.Error("it has not stopped:", err)
	}
}

// Even a loop that counts may take too long. The budget ends it at a jump back, at most one turn
// late.
func TestTheBudgetStopsALongLoop(t *testing.T) {
	k := startedKernel(t, handler("WHILE a < PACKET[0] DO BEGIN\nb = b + v[3]; a = a + 1 END"))
	if got := k.send(1, binary.LittleEndian.AppendUint64(nil, 100)); got.verdict != xdpDrop || k.variable(t, "a") != 100 {
		t.Fatalf("a short loop: verdict %d, %d turns", got.verdict, k.variable(t, "a"))
	}
	before, _, _ := k.Profile()
	k.send(1, binary.LittleEndian.AppendUint64(nil, 1<<40))
	p, c, err := k.Profile()
	if err != nil || p.Aborts[vm.OutOfBudget] != 1 || !c.Stopped || p.LastLine != 3 {
		t.Errorf("%+v, %+v, %v", p, c, err)
	}
	if n := p.Instructions - before.Instructions; n > limits.ProgramBudget+8 || n < limits.ProgramBudget {
		t.Errorf("%d instructions, expected %d and at most a turn more", n, limits.ProgramBudget)
	}
}

// Two processors with messages for one program do not run it at the same time.
func TestAnActivationIsAloneWithTheData(t *testing.T) {
	k := startedKernel(t, handler("a = a + 1; b = 0; WHILE b < 200 DO b = b + 1; c = c + b"))
	const each = 2000
	var wait sync.WaitGroup
	for n := range 2 {
		wait.Go(func() {
			for i := range each {
				frame := datagram(uint64(2*i+n+1), programID, 1, nil)
				if _, err := k.Program().Run(&cilium.RunOptions{Data: frame}); err != nil && !errors.Is(err, cilium.ErrNotSupported) {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	p, c, err := k.Profile()
	if err != nil || p.Activations+c.Replays+c.Busy != 2*each {
		t.Errorf("%d activations, %d replays and %d lost, of %d: %v", p.Activations, c.Replays, c.Busy, 2*each, err)
	}
	if a, sum := k.variable(t, "a"), k.variable(t, "c"); a != int64(p.Activations) || sum != 200*a {
		t.Errorf("%d and %d, of %d activations", a, sum, p.Activations)
	}
}

// The engine can answer in pieces, so it gets a message whose answer may not fit into one frame
// of the path. The program in the driver has changed nothing by then, and a copy of the message
// ends in the driver.
func TestAReplyThatThePathDoesNotCarryIsTheEngines(t *testing.T) {
	k := startedKernel(t, counter)
	if err := k.host.SetSession(index, ebpf.Session{NIC: peerNIC, Cookie: cookie, Most: around + 100, ReplyIndex: 99, ReplyCookie: 7777, ReplyCounter: 1}); err != nil {
		t.Fatal(err)
	}
	if got := k.send(4000000000, make([]byte, 100)); got.verdict != xdpTx {
		t.Errorf("100 bytes: verdict %d", got.verdict)
	}
	before := k.standing()
	frame := datagram(7, programID, 4000000000, make([]byte, 101))
	if got := k.run(frame); got.verdict != xdpPass || !bytes.Equal(got.frame[:len(frame)], frame) {
		t.Errorf("101 bytes: verdict %d, expected that the engine gets the frame as it came", got.verdict)
	}
	if after := k.standing(); !reflect.DeepEqual(after, before) {
		t.Errorf("%+v has become %+v", before, after)
	}
	if got := k.run(frame); got.verdict != xdpDrop {
		t.Errorf("the same frame once more: verdict %d", got.verdict)
	}
	if _, c, err := k.Profile(); err != nil || c.Sends != 1 || c.Handed != 1 || c.Replays != 1 || c.SendsLost != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// The longest answer is that of the message's own trigger. If the source gives a number or a
// mask, it is that length; otherwise it is the whole variable, or the message.
func TestTheLongestAnswerIsWhatTheSourceSays(t *testing.T) {
	k := startedKernel(t, `PROGRAM p: VAR n, v[40]; TRIGGERS 1, 2, 3, 4, 5; BEGIN END;
MESSAGE 1: BEGIN SEND v[0] LEN 64 AS 1 TO 5 AT SOURCE END;
MESSAGE 2: BEGIN n = PACKET[0]; SEND v[0] LEN n & 127 AS 1 TO 5 AT SOURCE END;
MESSAGE 3: BEGIN n = PACKET[0]; SEND v[0] LEN n AS 1 TO 5 AT SOURCE END;
MESSAGE 4: BEGIN SEND PACKET[0] LEN 8 AS 1 TO 5 AT SOURCE END;
MESSAGE 5: BEGIN n = n + 1 END; END`)
	for _, c := range []struct {
		trigger uint32
		longest int
	}{{1, 64}, {2, 127}, {3, 320}, {4, 24}} {
		for _, most := range []int{c.longest, c.longest - 1} {
			if err := k.host.SetSession(index, ebpf.Session{NIC: peerNIC, Cookie: cookie, Most: around + most, ReplyIndex: 99, ReplyCookie: 7777, ReplyCounter: 1}); err != nil {
				t.Fatal(err)
			}
			want := uint32(xdpTx)
			if most < c.longest {
				want = xdpPass
			}
			if got := k.send(c.trigger, words8(8, 0, 0)); got.verdict != want {
				t.Errorf("trigger %d, and a path for %d bytes: verdict %d, expected %d", c.trigger, most, got.verdict, want)
			}
			if got := k.send(5, words8(8, 0, 0)); got.verdict != xdpDrop {
				t.Errorf("a trigger that sends nothing: verdict %d", got.verdict)
			}
		}
	}
}

// words8 returns the words as bytes of a message.
func words8(list ...uint64) (b []byte) {
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}
