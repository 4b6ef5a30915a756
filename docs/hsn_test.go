package docs_test

import (
	"fmt"
	"regexp"
	"testing"
)

// hsnItem is a row of docs/hsn.md: a demand, where it is met, and today's reading.
var hsnItem = regexp.MustCompile(`(?m)^\| (HSN-\d+) \| ([^|]+) \| ([^|]*) \| ([^|]*) ?\|$`)

func TestEveryDemandOfHSNHasOneRowWhoseCodeIsThere(t *testing.T) {
	rows := make(map[string]int)
	for _, m := range hsnItem.FindAllStringSubmatch(read(t, "docs/hsn.md"), -1) {
		rows[m[1]]++
		places := where.FindAllStringSubmatch(m[3], -1)
		if len(places) == 0 {
			t.Errorf("the row of %s names no file", m[1])
		}
		for _, w := range places {
			for _, id := range ident.FindAllStringSubmatch(w[2], -1) {
				if !regexp.MustCompile(`\b` + id[1] + `\b`).MatchString(read(t, w[1])) {
					t.Errorf("the row of %s names %s in %s, which is not there", m[1], id[1], w[1])
				}
			}
		}
	}
	for i := 1; i <= 40; i++ {
		name := fmt.Sprintf("HSN-%d", i)
		if rows[name] != 1 {
			t.Errorf("docs/hsn.md has %d rows for %s; expected 1", rows[name], name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/hsn.md has a row for %s, which the text does not", name)
	}
}
