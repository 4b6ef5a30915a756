package pdl

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A grammar holds the rules of grammar.txt: for each rule the tokens of its right side.
type grammar struct {
	text  string
	rules map[string][]string
}

func readGrammar(t *testing.T) *grammar {
	t.Helper()
	b, err := os.ReadFile("grammar.txt")
	if err != nil {
		t.Fatal(err)
	}
	g := &grammar{rules: make(map[string][]string)}
	g.text = regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(string(b), "")
	tokens := regexp.MustCompile(`"[^"]+"|[a-z]+|[{}\[\]()|=.]`).FindAllString(g.text, -1)
	for len(tokens) > 0 {
		if len(tokens) < 3 || tokens[1] != "=" {
			t.Fatalf("grammar.txt: no rule at %q", tokens)
		}
		end := 2
		for tokens[end] != "." {
			end++
		}
		g.rules[tokens[0]] = tokens[2:end]
		tokens = tokens[end+1:]
	}
	for name, rule := range g.rules {
		for _, word := range rule {
			if word[0] >= 'a' && word[0] <= 'z' && g.rules[word] == nil && word != "ident" && word != "integer" && word != "string" {
				t.Fatalf("grammar.txt: rule %s has %s, which is none", name, word)
			}
		}
	}
	return g
}

// A derivation writes a random program by the rules.
type derivation struct {
	*grammar
	*rand.Rand
	out []string
}

// derive writes a random text for a rule. Deep in the tree it drops optional pieces and takes
// the shortest choices.
func (d *derivation) derive(rule string, depth int) {
	switch rule {
	case "ident":
		d.out = append(d.out, []string{"a", "B2", "_x", "Name"}[d.IntN(4)])
	case "integer":
		d.out = append(d.out, []string{"0", "7", "255", "0x1F"}[d.IntN(4)])
	case "string":
		d.out = append(d.out, `"a-node"`)
	default:
		d.alternatives(d.rules[rule], depth)
	}
}

// split cuts tokens at the bars outside of brackets.
func split(tokens []string) (list [][]string) {
	depth, from := 0, 0
	for i, t := range tokens {
		switch t {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case "|":
			if depth == 0 {
				list = append(list, tokens[from:i])
				from = i + 1
			}
		}
	}
	return append(list, tokens[from:])
}

func (d *derivation) alternatives(tokens []string, depth int) {
	list := split(tokens)
	pick := list[d.IntN(len(list))]
	if depth > 12 { // the shortest one
		for _, l := range list {
			if weight(l) < weight(pick) {
				pick = l
			}
		}
	}
	d.sequence(pick, depth)
}

// weight returns how much a piece may grow: the number of rules in it that are not tokens of the
// scanner.
func weight(tokens []string) (n int) {
	for _, t := range tokens {
		switch {
		case t == "integer" || t == "ident" || t == "string" || t[0] == '"':
		case t == "act" || t == "factor":
			n++
		default:
			n += 2
		}
	}
	return n
}

func (d *derivation) sequence(tokens []string, depth int) {
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t[0] == '"' {
			d.out = append(d.out, strings.Trim(t, `"`))
			continue
		}
		if !strings.Contains("([{", t) {
			d.derive(t, depth+1)
			continue
		}
		end := i + 1
		for open := 1; ; end++ {
			if strings.Contains("([{", tokens[end]) {
				open++
			} else if strings.Contains(")]}", tokens[end]) {
				if open--; open == 0 {
					break
				}
			}
		}
		times := 1
		switch {
		case t == "[":
			times = d.IntN(2)
		case t == "{":
			times = d.IntN(3)
		}
		if depth > 12 && t != "(" {
			times = 0
		}
		for range times {
			d.alternatives(tokens[i+1:end], depth+1)
		}
		i = end
	}
}

func ExampleFormat() {
	src, err := Format("x.pdl", []byte("program x: var a; begin a=1 end; end"))
	fmt.Print(string(src), err)
	// Output:
	// PROGRAM x:
	// VAR a;
	// BEGIN
	//     a = 1;
	// END;
	// END;
	// <nil>
}
