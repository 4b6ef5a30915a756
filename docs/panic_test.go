package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// panicItem is a row of docs/panic.md: a demand, where it is met, and today's reading.
var panicItem = regexp.MustCompile(`(?m)^\| (PANIC-\d+) \| ([^|]+) \| ([^|]*) \| ([^|]*) ?\|$`)

func TestEveryDemandOfPANICHasOneRow(t *testing.T) {
	rows := make(map[string]int)
	for _, m := range panicItem.FindAllStringSubmatch(read(t, "docs/panic.md"), -1) {
		rows[m[1]]++
	}
	for i := 1; i <= 47; i++ {
		name := fmt.Sprintf("PANIC-%d", i)
		if rows[name] != 1 {
			t.Errorf("docs/panic.md has %d rows for %s; expected 1", rows[name], name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/panic.md has a row for %s, which the paper does not", name)
	}
}

// A row names files, and in parentheses what to look for there, unless there is nothing to meet.
func TestRowsOfPANICNameCodeThatIsThere(t *testing.T) {
	found := 0
	for _, m := range panicItem.FindAllStringSubmatch(read(t, "docs/panic.md"), -1) {
		for _, w := range where.FindAllStringSubmatch(m[3], -1) {
			for _, id := range ident.FindAllStringSubmatch(w[2], -1) {
				found++
				if !regexp.MustCompile(`\b` + id[1] + `\b`).MatchString(read(t, w[1])) {
					t.Errorf("the row of %s names %s in %s, which is not there", m[1], id[1], w[1])
				}
			}
		}
		if !where.MatchString(m[3]) && !strings.HasPrefix(m[4], "nothing to meet") {
			t.Errorf("the row of %s names no file", m[1])
		}
	}
	if found < 60 {
		t.Errorf("found %d names of code; the search must be broken", found)
	}
}

// The reference of the language leaves none of its words out.
func TestReferenceOfPDLNamesAllItsWords(t *testing.T) {
	text, grammar := read(t, "docs/pdl.md"), read(t, "pdl/grammar.txt")
	words := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(grammar, ""), -1)
	if len(words) < 60 {
		t.Fatalf("found %d words in pdl/grammar.txt; the search must be broken", len(words))
	}
	for _, m := range words {
		if w := strings.ReplaceAll(m[1], "|", `\|`); !strings.Contains(text, w) {
			t.Errorf("docs/pdl.md does not mention %s", m[1])
		}
	}
}
