package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	for what, file := range map[string]string{"effects": "../opcodes.go", "loop": "../../vm/loop.go"} {
		want, err := generate(what)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the table says; go generate ./pdl/... makes it anew", file)
		}
	}
}

func TestNoAbbreviationIsLeftInTheLoop(t *testing.T) {
	text, err := generate("loop")
	if err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexByte(text, '$'); i >= 0 {
		t.Errorf("the loop has %q", text[i:min(len(text), i+40)])
	}
}

func TestOpcodesHaveNamesOfTheirOwnAndFitAByte(t *testing.T) {
	seen := make(map[string]bool)
	for _, o := range slices.Concat(table, newer) {
		if seen[o.Name] || o.Name == "" || o.Mean == "" {
			t.Errorf("%q: a name of its own and a meaning are expected", o.Name)
		}
		seen[o.Name] = true
	}
	if n := len(table) + len(pairs) + len(newer); n > 254 {
		t.Errorf("%d opcodes do not fit a byte", n)
	}
}

// The fields that an op's body uses must match its declared fields. Otherwise verifier and
// disassembler would describe another machine than the one that runs.
func TestFieldsAreWhatBodiesUse(t *testing.T) {
	for _, o := range table {
		if o.Body == "" {
			continue
		}
		for abbreviation, field := range map[string]string{"a": o.A, "b": o.B, "c": o.C} {
			uses := regexp.MustCompile(`\$` + abbreviation + `\b`).MatchString(o.Body)
			if register := field == r || field == w || field == m; uses != register {
				t.Errorf("%s: $%s is said to be %q, and the body is %s", o.Name, abbreviation, field, o.Body)
			}
		}
		writes := strings.Contains(o.Body, "$a = ")
		if said := o.A == w || o.A == m; writes != said {
			t.Errorf("%s: A is said to be %q, and the body is %s", o.Name, o.A, o.Body)
		}
		if jumps := strings.Contains(o.Body, "$jump") || strings.Contains(o.Body, "$near"); jumps != (o.Flow != "") {
			t.Errorf("%s: its flow is said to be %q, and the body is %s", o.Name, o.Flow, o.Body)
		}
		if named := strings.Contains(o.Body, "$index"); named != (o.Imm == "Variable") {
			t.Errorf("%s: Imm is said to be %q, and the body is %s", o.Name, o.Imm, o.Body)
		}
	}
}

func TestAnUnknownFileIsRefused(t *testing.T) {
	if _, err := generate("nothing"); err == nil {
		t.Error("generate makes a file that it does not know")
	}
}
