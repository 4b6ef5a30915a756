package resident

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/ebpf"
)

// sizes returns lengths of answers, in bytes: small ones, those around the question's 24 bytes,
// those around the room that drivers leave after a short frame, and those around the capacity of
// one frame.
func sizes() (all []int) {
	for n := 8; n < ebpf.MostMessage; n += 52 {
		all = append(all, n)
	}
	for _, about := range []int{24, 192, 256, 320, 448, 512, 1384, 1400, 1500} {
		all = append(all, about-1, about, about+1)
	}
	all = append(all, ebpf.MostMessage-1, ebpf.MostMessage)
	slices.Sort(all)
	return slices.Compact(all)
}

// answersOf returns a program that has a trigger for each size, and counts its activations in the
// first word of its answers. Trigger 1 displays the count.
func answersOf(all []int) string {
	var triggers, blocks strings.Builder
	for _, n := range all {
		fmt.Fprintf(&triggers, ", %d", n)
		fmt.Fprintf(&blocks, "MESSAGE %d: BEGIN n = n + 1; v[0] = n; SEND v[0] LEN %d AS 10 TO 416 AT SOURCE END;\n", n, n)
	}
	return fmt.Sprintf("PROGRAM answers: VAR n, v[248]; TRIGGERS 1%s; BEGIN v[246] = 77 END;\nMESSAGE 1: BEGIN DISPLAY n END;\n%sEND;", &triggers, &blocks)
}

// A question of 24 bytes has one outcome for each length of the answer: the driver answers, or
// the engine gets the question and the program in the driver has changed nothing. No answer is
// lost, and the engine counts once for each question.
func TestEachQuestionIsAnsweredOnceByTheDriverOrTheEngine(t *testing.T) {
	for _, mtu := range []int{1500, 3400} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			bed := hosts(t, testbed.Config{Hosts: 2, MTU: mtu})
			n := newNICOf(t, listen(t, bed.Host(0), bed.Host(0).Addr()), listen(t, bed.Host(1), bed.Host(1).Addr()))
			n.load(answersOf(sizes()), false)
			k := keys
			k.Most = n.server.MTU()
			n.meet(k)
			byDriver, byEngine := 0, 0
			for i, length := range sizes() {
				question := n.send(uint32(length), 1, 2, 3)
				answer, handed := n.outcome()
				if handed != nil {
					byEngine++
					if !slices.Equal(handed, question) {
						t.Fatalf("an answer of %d bytes: %x has come to the engine, expected %x", length, handed, question)
					}
					n.asEngine(handed)
				} else if byDriver++; len(answer) != length || binary.LittleEndian.Uint64(answer) != uint64(i+1) {
					t.Fatalf("%d bytes have come, with count %x, expected %d and %d", len(answer), answer[:8], length, i+1)
				}
			}
			t.Logf("the driver answered %d questions, and the engine got %d", byDriver, byEngine)
			n.send(1)
			n.shows(int64(len(sizes())))
			if byDriver == 0 || mtu < ebpf.MostMessage && byEngine == 0 {
				t.Errorf("the driver answered %d questions, and the engine got %d; expected some of each", byDriver, byEngine)
			}
			n.engine.do(func(table *program.Table) {
				if info, _ := table.Info(programID); info.Lost != (program.Losses{}) {
					t.Errorf("%+v is lost", info.Lost)
				}
			})
		})
	}
}

// outcome waits for the answer to the last question, or for the question itself at the engine.
func (n *nicTest) outcome() (answer, handed []byte) {
	n.t.Helper()
	var here, there linktest.Inbox
	for late := time.Now().Add(patience); ; time.Sleep(100 * time.Microsecond) {
		if n.client.Poll(0, &here); len(here.Frames) > 0 {
			return n.opened(here.Frames[0]), nil
		}
		if n.server.Poll(0, &there); len(there.Frames) > 0 {
			return nil, there.Frames[0]
		}
		n.engine.do(func(table *program.Table) {
			if info, _ := table.Info(programID); info.Lost.Answers > 0 {
				n.t.Fatal("the driver has lost the answer")
			}
		})
		if time.Now().After(late) {
			n.t.Fatalf("after %v there is no answer, and no question for the engine", patience)
		}
	}
}

// asEngine handles the datagram in a frame, as the engine of a NIC does.
func (n *nicTest) asEngine(frame []byte) {
	n.t.Helper()
	end, err := wire.Open(frame, n.keys.Cookie)
	if err != nil {
		n.t.Fatal(err)
	}
	_, payload, err := wire.ParseDatagram(frame[wire.OuterLen:end])
	if err != nil {
		n.t.Fatal(err)
	}
	n.engine.do(func(table *program.Table) {
		table.Datagram(peerNIC, payload)
		table.Run(0)
	})
}
