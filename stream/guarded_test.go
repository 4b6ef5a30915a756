package stream

import (
	"bytes"
	"io"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// A program that guards a process judges all messages of a stream: the short writes, and the long
// ones, which have a place in the stream's ring before they arrive.
func TestAFilterStandsBeforeAStream(t *testing.T) { // PANIC-7
	server, client := onSwitch(t)
	m, err := pdl.Compile("pass.pdl", []byte("PROGRAM passes: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN IF PACKETLEN = 0 THEN DISPLAY 1; PASS END; END;"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.On(server).Load(t.Context(), []weft.NICID{0}, m.Encode(),
		program.Options{ID: 7, Start: true, Guards: server.Name().String(), Trigger: 1}); err != nil {
		t.Fatal(err)
	}
	const received, judged = "nic_messages_received", "nic_programs_filtered"
	before := server.NIC().Counters()
	c, s := dialled(t, server, client, "guarded")
	sent := load.Written(3 << 20)
	go func() {
		for at := 0; at < 64<<10; at += 100 {
			c.Write(sent[at:min(at+100, 64<<10)])
		}
		c.Write(sent[64<<10:])
		c.CloseWrite()
	}()
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes came of %d, %v", len(got), len(sent), err)
	}
	after := server.NIC().Counters()
	if n, j := after[received]-before[received], after[judged]-before[judged]; n != j || n < 10 {
		t.Errorf("%d messages came, and the filter has judged %d", n, j)
	}
	long, _, err := program.On(server).Log(t.Context(), program.Address{ID: 7}, 0)
	if err != nil || len(long) < 4 {
		t.Errorf("%d of the messages were long, %v", len(long), err)
	}
}
