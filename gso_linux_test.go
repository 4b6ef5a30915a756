package weft_test

import (
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// Segmentation offload can be switched off for programs that embed their NIC, without their doing.
func TestTheEnvironmentSwitchesSegmentationOffloadOff(t *testing.T) {
	batched := func() uint64 {
		ctx, a, b := pair(t, on(weft.Config{}))
		buf := make([]byte, 4<<20)
		op, err := b.StartRecv(a.Name(), 1, buf)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.SendDelivered(ctx, b.Name(), 1, pattern(1, len(buf))); err != nil {
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
