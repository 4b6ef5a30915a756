package main

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	weftlib "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/program"
)

// The interfaces of two AF_XDP NICs are deleted and made again. weft stat and the log tell the
// state of the link meanwhile. Afterwards a program in the driver answers again without its NIC.
func TestALinkThatComesBackIsToldOfAndUsedAgain(t *testing.T) {
	pair := residentNICsOf(t, testbed.DefaultMTU, plainResident)
	here, there := pair.sockets[0], pair.sockets[1]
	must(t, "program", "load", sourceFile(t, "count", `PROGRAM count: VAR n; TRIGGERS 12; BEGIN END;
MESSAGE 12: BEGIN n = n + 1; SEND n LEN 8 AS 10 TO PACKET[0] AT SOURCE END; END;`), "--id", "415", "--resident", "xdp", "--socket", there)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := weftlib.Attach(ctx, weftlib.AttachConfig{Socket: here, Name: weftlib.Name{App: "asker"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	programs, asked := program.On(p), uint64(0)
	ask := func() {
		t.Helper()
		asked++
		question := binary.LittleEndian.AppendUint64(nil, uint64(programs.Number()))
		// nicIDs[1]
		if err := programs.SendHandled(ctx, program.Address{NIC: 0x0060dd7fff8c, ID: 415}, 12, question); err != nil {
			t.Fatal(err)
		}
		var answer [8]byte
		if _, err := p.Recv(ctx, program.NameOf(415), 10, answer[:]); err != nil || binary.LittleEndian.Uint64(answer[:]) != asked {
			t.Fatalf("question %d: %x, %v", asked, answer, err)
		}
	}
	kind := func(want string) func() bool {
		return func() bool {
			return strings.Contains(must(t, "stat", "--json", "--socket", here), want) && strings.Contains(must(t, "stat", "--json", "--socket", there), want)
		}
	}
	eventually(t, "the links are AF_XDP", kind(`"link":"xdp"`))
	ask()
	if err := pair.bed.DeleteCable(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the links have lost their interfaces", kind(`"link":"udp (xdp has lost its interface)"`))
	if err := pair.bed.RenewCable(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the links are AF_XDP again", kind(`"link":"xdp"`))
	ask()
	for i := range pair.logs {
		said := pair.logs[i].String()
		if strings.Count(said, "AF_XDP has lost its interface") != 1 || strings.Count(said, "AF_XDP is back") != 1 {
			t.Errorf("the log of NIC %d is\n%s", i, said)
		}
	}
}
