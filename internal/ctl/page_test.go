package ctl

import (
	"slices"
	"strings"
	"testing"
)

// A page without an entry would end the list, since the next page would begin at the same index.
func TestAnEntryLongerThanAPageIsAPage(t *testing.T) {
	all := []string{"short", strings.Repeat("x", ListBytes), strings.Repeat("y", 2*ListBytes), "last"}
	var got []string
	from := 0
	for range all {
		page, next := Page(all, from)
		if got = append(got, page...); next == 0 {
			break
		}
		if next <= from {
			t.Fatalf("the page from %d on goes on at %d", from, next)
		}
		from = next
	}
	if !slices.Equal(got, all) {
		t.Errorf("%d entries have come; expected %d", len(got), len(all))
	}
}
