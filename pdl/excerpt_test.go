package pdl

import (
	"strings"
	"testing"
	"unicode"
)

func TestAnErrorPrintsNoControlCharactersAndItsMarkStandsRight(t *testing.T) {
	for src, want := range map[string]string{
		"PROGRAM x: VAR y; BEGIN\n\ty = \x1b; y = z END; END": "x.pdl:2:6: \"\\x1b\" does not belong in a program\n" +
			"    \ty = \\x1b; y = z END; END\n    \t    ^\n" +
			"x.pdl:2:13: z is not declared\n    \ty = \\x1b; y = z END; END\n    \t              ^",
		"PROGRAM x: BEGIN # é\x00\n END; # \x9b\x1b\a": "x.pdl:2:6: end of file: expected END of the program\n" +
			"     END; # \\x9b\\x1b\\a\n         ^",
		"PROGRAM x: BEGIN SEND x\x1b":                                                "",
		"PROGRAM x: BEGIN SEND y LEN 1 AS 1 TO \"\u202e\x1b]0;\" END; END":           "",
		"PROGRAM x: VAR x; BEGIN x = \"\x1b[1m\"; \"\x1b\" END; END":                 "",
		"PROGRAM x: VAR x; BEGIN IF \"\x1b[1m\" THEN x = 1; \x7f\u2028\xff END; END": "",
	} {
		_, err := Compile("x.pdl", []byte(src))
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%q:\n%v\nwant\n%s", src, err, want)
			continue
		}
		for _, r := range err.Error() {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
				t.Errorf("%q: %U is printed: %q", src, r, err.Error())
			}
		}
	}
}

func TestAnErrorShowsAPartOfALongLine(t *testing.T) {
	src := "PROGRAM x: VAR a; BEGIN\n" + strings.Repeat("a = 1; ", 100) + "é = wrong; " + strings.Repeat("a = 1; ", 100) + "\nEND; END"
	_, err := Compile("x.pdl", []byte(src))
	lines := strings.Split(err.Error(), "\n")
	before, _, _ := strings.Cut(lines[1], "é")
	if len(lines) < 3 || !strings.HasPrefix(lines[1], "    …") || !strings.HasSuffix(lines[1], "…") ||
		lines[2] != strings.Repeat(" ", len([]rune(before)))+"^" {
		t.Errorf("%v", err)
	}
}

// The printed errors are short, however long a source's lines, names and numbers are.
func TestWhatIsPrintedOfErrorsIsShort(t *testing.T) {
	long := strings.Repeat("long", 20000)
	for _, body := range []string{
		strings.Repeat("IF 1 THEN ", 20000),
		strings.Repeat("wrong = 1; ", 20000),
		strings.Repeat("AWAIT; x = 1; ", 20000),
		long + " = 1; x = " + long + " + 1; " + long + "[1] = " + strings.Repeat("9", 100000),
		`SEND x LEN 8 AS 1 TO "` + long + `"`,
		strings.Repeat("\x00", 50000),
		`x = "` + long + `"`,
	} {
		warnings, err := Check("x.pdl", []byte("PROGRAM x: VAR x; BEGIN "+body+" END; END"))
		if n := len(warnings.Error()); n > 20000 {
			t.Errorf("%.20s…: warnings of %d bytes", body, n)
		}
		if err == nil {
			continue
		}
		if n := len(err.Error()); n > 20000 {
			t.Errorf("%.20s…: errors of %d bytes: %.300s", body, n, err)
		}
	}
}
