package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// item is a row of docs/qnix.md: a demand of the design, and where it is met.
var (
	item  = regexp.MustCompile(`(?m)^\| (QNIX-A?\d+) \| ([^|]+) \| ([^|]+)\|`)
	where = regexp.MustCompile("`([a-z0-9_/]+\\.go)`(?: \\(([^)]+)\\))?")
	ident = regexp.MustCompile("`(\\w+)`")
)

func TestEveryDemandOfQNIXHasOneRow(t *testing.T) {
	rows := make(map[string]int)
	for _, m := range item.FindAllStringSubmatch(read(t, "docs/qnix.md"), -1) {
		rows[m[1]]++
	}
	want := func(name string) {
		if rows[name] != 1 {
			t.Errorf("docs/qnix.md has %d rows for %s; expected 1", rows[name], name)
		}
		delete(rows, name)
	}
	for i := 1; i <= 62; i++ {
		want(fmt.Sprintf("QNIX-%d", i))
	}
	for i := 1; i <= 12; i++ {
		want(fmt.Sprintf("QNIX-A%d", i))
	}
	for name := range rows {
		t.Errorf("docs/qnix.md has a row for %s, which the design does not", name)
	}
}

// The rows name files, and in parentheses what to look for there: a row that outlives its code is worse than none.
func TestRowsOfQNIXNameCodeThatIsThere(t *testing.T) {
	found := 0
	for _, m := range item.FindAllStringSubmatch(read(t, "docs/qnix.md"), -1) {
		for _, w := range where.FindAllStringSubmatch(m[3], -1) {
			for _, id := range ident.FindAllStringSubmatch(w[2], -1) {
				found++
				if !regexp.MustCompile(`\b` + id[1] + `\b`).MatchString(read(t, w[1])) {
					t.Errorf("the row of %s names %s in %s, which is not there", m[1], id[1], w[1])
				}
			}
		}
		if !strings.Contains(m[1], "A") && !where.MatchString(m[3]) {
			t.Errorf("the row of %s names no file", m[1])
		}
	}
	if found < 20 {
		t.Errorf("found %d names of code; the search must be broken", found)
	}
}
