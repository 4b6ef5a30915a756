package vni

import (
	"testing"
	"time"
)

func TestMeasurementsOfALoopAreReadFromTheSamePage(t *testing.T) {
	b := AlignedBytes(LoopPageBytes)
	if _, err := OpenLoopPage(b); err == nil {
		t.Error("an unformatted page was opened")
	}
	w, err := NewLoopPage(b)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenLoopPage(b)
	if err != nil {
		t.Fatal(err)
	}
	var want, got Loop
	for i := range 100 {
		want.Polls.Record(time.Duration(i) * time.Microsecond)
		want.Lags.Record(time.Duration(i*i) * time.Microsecond)
		want.LongestPollAt, want.LongestLagAt = int64(i), int64(2*i)
		w.Store(&want)
		if !r.Load(&got) || got != want {
			t.Fatalf("read %+v; want %+v", got, want)
		}
	}
	w.row[0]++ // the writer was stopped in the middle
	if r.Load(&got) {
		t.Error("the page was read while it was being written")
	}
	b[8]++
	if _, err := OpenLoopPage(b); err == nil {
		t.Error("a page of another layout was opened")
	}
	if _, err := NewLoopPage(b[:100]); err == nil {
		t.Error("a short page was formatted")
	}
	var none LoopPage
	none.Store(&want)
	if none.Load(&got) {
		t.Error("the zero page keeps measurements")
	}
}
