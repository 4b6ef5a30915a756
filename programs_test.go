package weft_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// A process loads a program into its NIC, exchanges messages with it from there and from another
// NIC, and receives its output.
func TestAProcessLoadsAProgramAndTalksToIt(t *testing.T) { // PANIC-19, PANIC-22
	m, err := pdl.Compile("double.pdl", []byte(`PROGRAM double: VAR n; TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN n = 2 * PACKET[1]; DISPLAY n; SEND n LEN 8 AS 33 TO PACKET[0] AT SOURCE END;
END;`))
	if err != nil {
		t.Fatal(err)
	}
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		programs := program.On(b)
		placed, err := programs.Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{ID: 415})
		if err != nil || len(placed) != 1 || placed[0].ID != 415 {
			t.Fatal(placed, err)
		}
		to := program.Address{NIC: b.Address().NIC, ID: 415}
		if err := program.On(a).SendHandled(ctx, to, 1, make([]byte, 16)); !errors.Is(err, weft.ErrNoProgram) {
			t.Errorf("a message to a program that was not started: %v", err)
		}
		if err := programs.Start(ctx, program.Address{ID: 415}); err != nil {
			t.Fatal(err)
		}
		for i, p := range []*weft.Process{a, b, a} {
			request := binary.LittleEndian.AppendUint64(nil, uint64(program.On(p).Number()))
			if err := program.On(p).Send(ctx, to, 1, request, binary.LittleEndian.AppendUint64(nil, uint64(i+10))); err != nil {
				t.Fatal(err)
			}
			var answer [8]byte
			got, err := p.Recv(ctx, program.NameOf(415), 33, answer[:])
			if err != nil || got.Addr.NIC != to.NIC || binary.LittleEndian.Uint64(answer[:]) != uint64(2*(i+10)) {
				t.Errorf("answer %d: %v from %v, %v", i, answer, got.Addr, err)
			}
		}
		if err := program.On(a).SendHandled(ctx, to, 1); !errors.Is(err, weft.ErrProgramFailed) {
			t.Errorf("a message that the program fails of: %v", err)
		}
		values, first, err := programs.Log(ctx, program.Address{ID: 415}, 1)
		if err != nil || first != 1 || !slices.Equal(values, []int64{22, 24}) {
			t.Errorf("the log from its second value on: %v from %d on, %v", values, first, err)
		}
		l, err := programs.List(ctx, 0)
		if err != nil || len(l) != 1 || l[0].Activations != 5 || l[0].State != "running" || len(l[0].Aborts) != 1 {
			t.Errorf("the programs are %+v, %v", l, err)
		}
		if err := programs.Unload(ctx, program.Address{ID: 415}); err != nil {
			t.Error(err)
		}
	})
}

// A program finds another NIC by the name of the node in the configuration. It uses the node's id
// or, before the id is known, the node's address.
func TestAProgramFindsANodeByItsName(t *testing.T) {
	ctx, server, client := pair(t, on(weft.Config{}))
	if err := client.NIC().AddNode(weft.Node{Addr: server.NIC().Addr(), Name: "far"}); err != nil {
		t.Fatal(err)
	}
	m, err := pdl.Compile("tell.pdl", []byte(`PROGRAM tell: TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN SEND PACKET[1] LEN 8 AS 33 TO PACKET[0] AT far END; END;`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.On(client).Load(ctx, []weft.NICID{0}, m.Encode(), program.Options{ID: 5, Start: true}); err != nil {
		t.Fatal(err)
	}
	request := binary.LittleEndian.AppendUint64(nil, uint64(program.On(server).Number()))
	if err := program.On(client).SendHandled(ctx, program.Address{ID: 5}, 1, request, []byte("to a far")); err != nil {
		t.Fatal(err)
	}
	var got [8]byte
	if m, err := server.Recv(ctx, program.NameOf(5), 33, got[:]); err != nil || string(got[:]) != "to a far" {
		t.Errorf("%q of %v, %v", got, m, err)
	}
	if err := client.NIC().AddNode(weft.Node{Addr: "127.0.0.1:9", Name: "not so"}); err == nil {
		t.Error("a name with a blank was taken")
	}
}
