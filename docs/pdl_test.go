package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weftnet/weft/pdl"
)

// The reference of the language must contain all of its words.
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

// The reference shows an error. It must be the error of the reference's first program with one
// mistake.
func TestReferenceOfPDLShowsTheErrorThatItsProgramHas(t *testing.T) {
	text := read(t, "docs/pdl.md")
	first := regexp.MustCompile("(?s)```\n(PROGRAM counter:.*?)```").FindStringSubmatch(text)
	if first == nil {
		t.Fatal("found no program in docs/pdl.md; the search must be broken")
	}
	if _, err := pdl.Compile("counter.pdl", []byte(first[1])); err != nil {
		t.Error(err)
	}
	_, err := pdl.Compile("counter.pdl", []byte(strings.Replace(first[1], "count + 1", "cuont + 1", 1)))
	if err == nil || !strings.Contains(text, "```\n"+err.Error()+"\n```\n") {
		t.Errorf("docs/pdl.md does not show this error:\n%v", err)
	}
}
