package main

import (
	"cmp"
	"slices"
	"testing"

	"github.com/weftnet/weft/parallel"
)

func TestTheRecordsAreSortedAsBySlices(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := sortRecords(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]record, count)
	for i := range want {
		want[i] = drawn(i)
	}
	slices.SortStableFunc(want, func(a, b record) int { return cmp.Compare(a.Key, b.Key) })
	if !slices.Equal(got, want) {
		t.Error("the records differ")
	}
}
