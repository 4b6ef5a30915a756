package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

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
