package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	weftlib "github.com/weftnet/weft"
	"github.com/weftnet/weft/program"
)

// answerSizes returns lengths of answers, from 8 bytes to the 1,980 that a program in the driver
// may send.
func answerSizes() (all []int) {
	for n := 8; n < 1980; n += 52 {
		all = append(all, n)
	}
	for _, about := range []int{24, 192, 340, 1384, 1400, 1980} {
		all = append(all, about-1, about)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A program in the driver answers questions of 24 bytes with up to 1,980 bytes. Each answer
// arrives, whether or not the frame of the question has room for it, and the program counts each
// question once.
func TestAnswersLongerThanTheirQuestionsArrive(t *testing.T) {
	var triggers, blocks strings.Builder
	for _, n := range answerSizes() {
		fmt.Fprintf(&triggers, ", %d", n)
		fmt.Fprintf(&blocks, "MESSAGE %d: BEGIN n = n + 1; v[0] = n; SEND v[0] LEN %d AS %d TO PACKET[0] AT SOURCE END;\n", n, n, n)
	}
	source := fmt.Sprintf(`PROGRAM answers: VAR n, v[248]; TRIGGERS 1%s; BEGIN v[247] = 77 END;
MESSAGE 1: BEGIN n = n + 1; v[0] = n; SEND v[0] LEN PACKET[1] AS 1 TO PACKET[0] AT SOURCE END;
%sEND;`, &triggers, &blocks)
	for _, mtu := range []int{1500, 3400} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			sockets := residentNICsOf(t, mtu, plainResident).sockets
			must(t, "program", "load", sourceFile(t, "answers", source), "--id", "415", "--resident", "xdp", "--socket", sockets[1])
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p, err := weftlib.Attach(ctx, weftlib.AttachConfig{Socket: sockets[0], Name: weftlib.Name{App: "asker"}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			// NIC is nicIDs[1]
			programs, answers := program.On(p), program.Address{NIC: 0x0060dd7fff8c, ID: 415}
			asked := uint64(0)
			ask := func(trigger uint32, length int) {
				t.Helper()
				asked++
				question := binary.LittleEndian.AppendUint64(nil, uint64(programs.Number()))
				question = binary.LittleEndian.AppendUint64(question, uint64(length))
				if err := programs.Send(ctx, answers, trigger, question, make([]byte, 8)); err != nil {
					t.Fatal(err)
				}
				var answer [2048]byte
				m, err := p.Recv(ctx, program.NameOf(415), weftlib.Tag(trigger), answer[:])
				if err != nil {
					t.Fatalf("no answer of %d bytes: %v\n%s", length, err, must(t, "program", "profile", "answers", "--socket", sockets[1]))
				}
				if n := binary.LittleEndian.Uint64(answer[:]); m.Len != length || n != asked {
					t.Fatalf("the answer to question %d has %d bytes and count %d; expected %d bytes", asked, m.Len, n, length)
				}
			}
			for _, n := range answerSizes() {
				ask(uint32(n), n)
				ask(1, n)
			}
		})
	}
}
