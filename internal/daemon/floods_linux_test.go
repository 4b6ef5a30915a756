package daemon

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/rel"
)

// Any host can send frames that do not belong to the fabric, from any address.
func TestFramesFromManyAddressesFillNeitherTheLogNorATable(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var o outsiders
	begun := time.Unix(1_800_000_000, 0)
	flood := func(port int, now time.Time) (lines int) {
		out.Reset()
		for range 2 { // each address is logged once
			for i := range 3 * limits.Refusals {
				addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), uint16(port))
				o.tell(log, &nic.Refusal{Addr: addr, Why: rel.ErrFabric}, now)
			}
		}
		if len(o.told) > limits.Refusals {
			t.Errorf("the table has %d addresses; expected %d at most", len(o.told), limits.Refusals)
		}
		return strings.Count(out.String(), "address=")
	}
	for _, c := range []struct {
		what  string
		port  int
		after time.Duration
		lines int
	}{
		{"at first", 1, 0, limits.Refusals},
		{"a moment later", 2, repeatRefusalAfter - 1, 0},
		{"after a while", 3, repeatRefusalAfter, limits.Refusals},
		{"a moment after that", 4, 2*repeatRefusalAfter - 1, 0},
	} {
		if lines := flood(c.port, begun.Add(c.after)); lines != c.lines {
			t.Errorf("%s the log has %d lines; expected %d", c.what, lines, c.lines)
		}
	}
}

func TestTheTableOfLoggedRefusalsIsBounded(t *testing.T) {
	var f refusals
	for id := range uint64(2*limits.Peers + 10) {
		if !f.due(id, "stat") || f.due(id, "stat") {
			t.Fatalf("the refusal of NIC %d is not logged once", id)
		}
		if len(f.told) > limits.Peers {
			t.Fatalf("the table has %d refusals; expected %d at most", len(f.told), limits.Peers)
		}
	}
}
