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

// The bound on the bytes of a page is inclusive.
func TestAPageIsFilledToItsLastByte(t *testing.T) {
	const around = len(`"",`) // each entry
	all := []string{"first", strings.Repeat("x", ListBytes-len("first")-2*around), "last"}
	if page, next := Page(all, 0); len(page) != 2 || next != 2 {
		t.Errorf("the page has %d entries and the next one begins at %d; expected 2 and 2", len(page), next)
	}
	all[1] += "x"
	if page, next := Page(all, 0); len(page) != 1 || next != 1 {
		t.Errorf("with one byte more, the page has %d entries and the next one begins at %d", len(page), next)
	}
}
