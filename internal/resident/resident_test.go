package resident

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	cilium "github.com/cilium/ebpf"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/prog"
)

// bare is a link that receives nothing.
type bare struct{ chained int }

func (*bare) Addr() netip.AddrPort                      { return netip.MustParseAddrPort("10.0.0.1:7700") }
func (*bare) Frames() (tagged, pieces bool)             { return false, false }
func (l *bare) Chain(*cilium.Map, uint32, uint32) error { l.chained++; return nil }

func module(t *testing.T, source string) *prog.Module {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const echoSource = `PROGRAM echo: VAR n; TRIGGERS 12;
BEGIN n = 5 END;
MESSAGE 12: BEGIN n = n + 1; SEND n LEN 8 AS 10 TO 416 AT SOURCE END;
END;`

// A program that cannot be in the driver is refused before anything is put in front of the
// sockets, and the error says why.
func TestWhatCannotResideIsRefusedWithTheReason(t *testing.T) {
	link := new(bare)
	p := New(Config{Link: link, Do: func(func(*program.Table)) { t.Error("the engine was asked for") }, Now: func() clock.Time { return 0 }})
	refused := func(source string, is error, want ...string) {
		t.Helper()
		r, err := p.Prepare(415, module(t, source))
		if err == nil {
			t.Fatalf("prepared: %v", r)
		}
		for _, w := range append(want, "cannot reside in the driver") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
		if is != nil && !errors.Is(err, is) {
			t.Errorf("%v is not %v", err, is)
		}
	}
	refused("PROGRAM twice: VAR n; TRIGGERS 1; BEGIN END;\nMESSAGE 1: BEGIN SEND n LEN 8 AS 1 TO 2 AT SOURCE;\n SEND n LEN 8 AS 1 TO 2 AT SOURCE END; END;",
		ebpf.ErrCannotReside, "twice", "line 3: a second SEND")
	refused("PROGRAM on: VAR n; TRIGGERS 1; BEGIN END;\nMESSAGE 1: BEGIN WHILE n <> 7 DO n = n + PACKET[0];\nEND; END;", ebpf.ErrCannotReside, "line 2: it cannot be seen that this loop ends")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	refused(echoSource, nil, "the NIC is closed")
	if err := p.Close(); err != nil || link.chained != 0 {
		t.Errorf("closed again: %v; %d chains", err, link.chained)
	}
}
