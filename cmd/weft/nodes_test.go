package main

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

func TestPsTellsWhoIsSlowAndWhoIsRefused(t *testing.T) {
	for want, p := range map[string]ctl.Process{
		"-":               {Unexpected: 3, Oldest: int64(time.Millisecond), Rings: 100, EmptyRings: 10},
		"slow to receive": {Unexpected: 1, Oldest: int64(2 * time.Second)},
		"crowds others out, refused: unreachable": {Crowded: 2, Refused: map[string]uint64{"bad-region": 1, "unreachable": 7}},
		"rings without a command":                 {Rings: 900, EmptyRings: 899},
	} {
		if got := noteOn(&p); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
