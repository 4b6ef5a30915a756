package trust

import (
	"testing"
	"time"
)

func TestDatesAreThoseOfThePackageTime(t *testing.T) {
	for s := int64(-3e9); s < 8e9; s += 40_000_019 / 7 {
		if got, want := dateText(s), time.Unix(s, 0).UTC().Format("2006-01-02 15:04:05 UTC"); got != want {
			t.Fatalf("%d is %s; want %s", s, got, want)
		}
	}
}
