package weft_test

import (
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testbed"
)

// A user can switch off segmentation offload for programs that embed their NIC, without a change
// of the programs.
func TestTheEnvironmentSwitchesSegmentationOffloadOff(t *testing.T) {
	batched := func() uint64 {
		ctx, a, b := pair(t, on(weft.Config{}))
		buf := make([]byte, 4<<20)
		var op weft.Op
		if err := b.StartRecv(&op, a.Name(), 1, buf); err != nil {
			t.Fatal(err)
		}
		if err := a.Peer(b.Name()).SendDelivered(ctx, 1, pattern(1, len(buf))); err != nil {
			t.Fatal(err)
		}
		if _, err := op.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		return a.NIC().Counters()["link_frames_batched"]
	}
	t.Setenv("WEFT_GSO", "true")
	with := batched()
	for _, off := range []string{"false", "0"} {
		t.Setenv("WEFT_GSO", off)
		if n := batched(); n != 0 {
			t.Errorf("WEFT_GSO=%s: %d frames left in batches", off, n)
		}
	}
	t.Setenv("WEFT_GSO", "")
	if n := batched(); (n > 0) != (with > 0) {
		t.Errorf("%d frames left in batches without the variable, and %d with true", n, with)
	}
	t.Setenv("WEFT_GSO", "maybe")
	if _, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}}); err == nil || !strings.Contains(err.Error(), `$WEFT_GSO is "maybe"; expected true or false`) {
		t.Errorf("WEFT_GSO=maybe: %v", err)
	}
}

// An AF_XDP link also has a UDP socket, and this socket obeys the same switch.
func TestTheEnvironmentSwitchesSegmentationOffloadOffBesideAFXDP(t *testing.T) {
	for environment, want := range map[string]bool{"false": true, "true": false} {
		bed := newBed(t, testbed.Config{Hosts: 2})
		t.Setenv("WEFT_GSO", environment)
		said := make(chan string, 16)
		n := network{Config: weft.Config{Link: weft.XDP(""), Log: weft.SaidLog(func(text string) { said <- text })}, bed: bed}
		n.add(t, func(c weft.Config) error {
			nic, err := weft.OpenNIC(t.Context(), c)
			if err == nil {
				t.Cleanup(func() { nic.Close() })
			}
			return err
		})
		got := <-said
		for !strings.Contains(got, "AF_XDP on ") {
			got = <-said
		}
		if strings.Contains(got, "no segmentation offload, as configured") != want {
			t.Errorf("WEFT_GSO=%s: it says %q", environment, got)
		}
	}
}
