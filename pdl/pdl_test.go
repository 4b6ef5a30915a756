package pdl

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/weftnet/weft/pdl/pdltest"
)

// samples returns the two programs of the PANIC paper, which are not part of this project.
func samples(t *testing.T) map[string][]byte {
	t.Helper()
	dir := os.Getenv("WEFT_PDL_SAMPLES")
	if dir == "" {
		t.Skip("WEFT_PDL_SAMPLES does not name the folder with the paper's programs ping.pdl and delivertest.pdl")
	}
	found := make(map[string][]byte)
	for _, name := range []string{"ping.pdl", "delivertest.pdl"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		found[name] = b
	}
	return found
}

// PANIC-37.
func TestThePapersProgramsCompileUnchanged(t *testing.T) {
	for name, src := range samples(t) {
		warnings, err := Check(name, src)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, err, warnings)
		}
	}
}

// Each line of testdata/errors.pdl ends in a comment with the errors that it must have. Its
// chunks are separate sources.
func TestErrorsStandWhereTheyBelong(t *testing.T) {
	all, err := os.ReadFile("testdata/errors.pdl")
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile("`([^`]*)`")
	for n, chunk := range strings.Split(string(all), "---\n") {
		_, warnings, err := compile("errors.pdl", []byte(chunk))
		got := make(map[int][]string)
		errs, _ := err.(Errors)
		for _, e := range append(errs, warnings...) {
			msg := e.Msg
			if e.Warning {
				msg = "warning: " + msg
			}
			got[e.Pos.Line] = append(got[e.Pos.Line], msg)
		}
		for i, line := range strings.Split(chunk, "\n") {
			var expected []string
			if _, comment, ok := strings.Cut(line, "# want "); ok {
				for _, m := range want.FindAllStringSubmatch(comment, -1) {
					expected = append(expected, m[1])
				}
			}
			slices.Sort(expected)
			slices.Sort(got[i+1])
			if !slices.Equal(got[i+1], expected) {
				t.Errorf("chunk %d, line %d: %s\n got %q\nwant %q", n, i+1, line, got[i+1], expected)
			}
		}
	}
}

func TestAnErrorShowsItsLineAndPlace(t *testing.T) {
	_, err := Compile("dir/x.pdl", []byte("PROGRAM x:\nBEGIN\n\ty = 1;\n  z = 2\nEND;\nEND;\n"))
	const want = "dir/x.pdl:3:2: y is not declared\n    \ty = 1;\n    \t^\ndir/x.pdl:4:3: z is not declared\n      z = 2\n      ^"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// Keywords and names are the same in upper, lower and mixed case.
func TestCaseDoesNotMatter(t *testing.T) { // PANIC-36
	const mixed = `PROGRAM Mixed: CONST Three = 3; VAR value[4], n; TRIGGERS 1;
Begin VALUE[three] = 0X1f END;
MESSAGE 1: BEGIN if N < 2 THEN n = N + packetlen Else SEND Value[0] LEN 8 AS 1 TO Other END; END;`
	want, err := Compile("mixed.pdl", []byte(mixed))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{strings.ToUpper(mixed), strings.ToLower(mixed)} {
		m, err := Compile("other.pdl", []byte(other))
		if err != nil {
			t.Fatal(err)
		}
		if m.Hash() != want.Hash() {
			t.Errorf("this is another program:\n%s", other)
		}
	}
}

// Some editors put a byte order mark at the beginning of a file.
func TestAByteOrderMarkBeforeASourceIsPassedOver(t *testing.T) {
	const src = "PROGRAM x: BEGIN END; END;"
	m, err := Compile("x.pdl", []byte("\ufeff"+src))
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := Compile("x.pdl", []byte(src)); m.Hash() != want.Hash() {
		t.Error("with the mark it is another program")
	}
	if b, err := Format("x.pdl", []byte("\ufeff"+src)); err != nil || string(b) != "PROGRAM x:\nBEGIN\nEND;\nEND;\n" {
		t.Errorf("formatted: %v, %q", err, b)
	}
	_, err = Compile("x.pdl", []byte("\ufeffPROGRAM x: BEGIN y = 1 END; END;"))
	if want := "x.pdl:1:18: y is not declared\n    PROGRAM x: BEGIN y = 1 END; END;\n                     ^"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

func TestTooMuchCodeIsAnErrorOfTheStatementWithWhichItIsTooMuch(t *testing.T) {
	turns := strings.Repeat("x = x * x;\n", 32767) // one instruction each, and an AWAIT
	if _, err := Compile("x.pdl", []byte("PROGRAM x: VAR x; TRIGGERS 1; BEGIN\n"+turns+"END; END;")); err == nil || strings.Contains(err.Error(), "instructions") {
		t.Errorf("%.300v", err)
	}
	for src, want := range map[string]Pos{
		"PROGRAM x: VAR x; BEGIN\n" + turns + "x = 1; x = x * 2;\nx = 3;\nEND; END;":                                         {32769, 8},
		"PROGRAM x: VAR x; BEGIN\n" + turns + "x = 1;\n END; END;":                                                           {32770, 2},
		"PROGRAM x: VAR x; TRIGGERS 1; BEGIN\n" + turns + "END;\nMESSAGE 1: BEGIN\n IF x > 1 THEN\n x = 2;\nx = 3 END; END;": {32771, 2},
	} {
		_, err := Compile("x.pdl", []byte(src))
		if l, _ := err.(Errors); len(l) != 1 || l[0].Pos != want || !strings.HasPrefix(l[0].Msg, "the program has more than 32768 instructions") {
			t.Errorf("%.300v, want it at %v", err, want)
		}
	}
}

func TestManyErrorsAreCountedAndNotShown(t *testing.T) {
	_, err := Compile("x.pdl", []byte("PROGRAM x: BEGIN "+strings.Repeat("y = 1;\n", 100)+" END; END;"))
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 70 more") || len(err.(Errors)) != 100 {
		t.Errorf("%v", err)
	}
}

// A source that is too much for a recursive walk or for a module causes an error, and nothing
// worse.
func TestTooMuchIsAnError(t *testing.T) {
	for src, want := range map[string]string{
		"x = " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000):          "nested more than 100 deep",
		"x = " + strings.Repeat("-", 5000) + "1":                                      "nested more than 100 deep",
		"x = " + strings.Repeat("NOT ", 5000) + "1":                                   "nested more than 100 deep",
		strings.Repeat("IF x THEN ", 5000) + "x = 1":                                  "nested more than 100 deep",
		strings.Repeat("BEGIN ", 5000) + strings.Repeat("END ", 5000):                 "nested more than 100 deep",
		strings.Repeat("IF x THEN BEGIN ", 5000) + strings.Repeat("END ", 5000):       "nested more than 100 deep",
		strings.Repeat("WHILE x DO BEGIN ", 50) + "x = 1":                             "nested more than 100 deep",
		strings.Repeat("IF x THEN BEGIN ", 49) + "x = 1" + strings.Repeat(" END", 49): "",
		strings.Repeat("BEGIN ", 98) + "x = 1" + strings.Repeat(" END", 98):           "",
		"x = 1" + strings.Repeat(" + x", 5000):                                        "more than 1000 operators in a row",
		strings.Repeat("x = x * x - 3;", 20000):                                       "the program has more than 32768 instructions",
		"x = " + strings.Repeat("(x * y - (", 45) + "x" + strings.Repeat("))", 45):    "",
		"x = " + strings.Repeat("(x | x) * ", 900) + "x":                              "",
		strings.Repeat("x = x;", 300000):                                              "the source has 1800043 bytes, at most 1048576 are allowed",
		"x = " + strings.Repeat("(a[x] - ", 90) + "x" + strings.Repeat(")", 90):       "the expression needs more than 64 temporaries: split it",
	} {
		_, err := Compile("x.pdl", []byte("PROGRAM x: VAR x, y, a[4]; BEGIN "+src+" END; END;"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s…: %.300v, want %q", src, err, want)
		}
		if err != nil && len(err.(Errors)) > 2 {
			t.Errorf("%.40s…: %d errors, %.1000v", src, len(err.(Errors)), err)
		}
	}
}

func TestKeywordsOfGrammarAndScannerAreTheSame(t *testing.T) {
	g := readGrammar(t)
	words := make(map[string]bool)
	for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(g.text, -1) {
		words[m[1]] = true
	}
	got := slices.Sorted(maps.Keys(words))
	want := append(slices.Clone(keywords), operators...)
	want = append(want, wordBehindPass)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("grammar.txt has\n%q\nthe scanner\n%q", got, want)
	}
	if !slices.IsSorted(keywords) {
		t.Error("the keywords are not in order, and are searched by halves")
	}
}

func TestTheParserReadsWhatTheGrammarDerives(t *testing.T) {
	g := readGrammar(t)
	for seed := range uint64(2000) {
		d := &derivation{grammar: g, Rand: rand.New(rand.NewPCG(seed, 0))}
		d.derive("program", 0)
		src := strings.Join(d.out, " ")
		r := newReport("derived.pdl", []byte(src))
		parse([]byte(src), r)
		if err := r.err(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, src)
		}
		formatted, err := Format("derived.pdl", []byte(src))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, src)
		}
		again, err := Format("formatted.pdl", formatted)
		if err != nil || !bytes.Equal(again, formatted) {
			t.Fatalf("seed %d: formatted %v\n%s\nand once more\n%s", seed, err, formatted, again)
		}
	}
}

// Formatting changes nothing in the compiled program, keeps every comment, and is idempotent.
func TestFormattedProgramsAreTheSame(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		src := pdltest.Program(random)
		comments := 0
		var b strings.Builder
		for c := range strings.SplitSeq(strings.TrimSuffix(src, ";\n"), ";") {
			b.WriteString(c)
			if b.WriteString(";"); random.IntN(4) == 0 {
				comments++
				fmt.Fprintf(&b, " # comment %d.\n%s", comments, strings.Repeat("\n", random.IntN(3)))
			}
		}
		src = b.String()
		formatted, err := Format("a.pdl", []byte(src))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range comments {
			if n := strings.Count(string(formatted), fmt.Sprintf("# comment %d.", i+1)); n != 1 {
				t.Fatalf("seed %d: comment %d is there %d times\n%s", seed, i+1, n, formatted)
			}
		}
		one, err1 := Compile("a.pdl", []byte(src))
		two, err2 := Compile("a.pdl", formatted)
		if err1 != nil || err2 != nil || !slices.Equal(one.Code, two.Code) {
			t.Fatalf("seed %d: formatting changes the code (%v, %v)\n%s\n%s", seed, err1, err2, src, formatted)
		}
		if again, _ := Format("a.pdl", formatted); !bytes.Equal(again, formatted) {
			t.Fatalf("seed %d: formatted\n%s\nand once more\n%s", seed, formatted, again)
		}
	}
}

func TestFormat(t *testing.T) {
	src, err := os.ReadFile("testdata/format.pdl")
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(src), "---\n")
	got, err := Format("format.pdl", []byte(before))
	if err != nil || string(got) != after {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestAVariableKeepsItsCommentWhenItIsFormatted(t *testing.T) {
	const src = `program x:
const size=4, # elements
 # of a ring
 mask=size-1;  # to turn an index
var head , # the next
   tail, Other, # the first, and another

   # words
   ring[ size ] # behind tail
   ;
var a,
  b,
  c;
triggers # of others
 1, 2;
begin end; message 1: begin head = other end; message 2: begin end; end`
	const want = `PROGRAM x:
CONST size = 4,  # elements
    # of a ring
    mask = size - 1;  # to turn an index
VAR head,  # the next
    tail, Other,  # the first, and another

    # words
    ring[size];  # behind tail
VAR a, b, c;
TRIGGERS  # of others
    1, 2;
BEGIN
END;
MESSAGE 1:
BEGIN
    head = Other;
END;
MESSAGE 2:
BEGIN
END;
END;
`
	for _, s := range []string{src, want, strings.ReplaceAll(src, "\n", "\r\n")} {
		if got, err := Format("x.pdl", []byte(s)); err != nil || string(got) != want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
}

// Wherever comments and line ends stand in declarations, formatting keeps every comment and is
// idempotent.
func TestCommentsInDeclarationsAreKept(t *testing.T) {
	const src = "PROGRAM x : CONST a = 1 , b = ( a + 2 ) ; VAR c , d [ 3 ] , e , f ; TRIGGERS 1 , 2 ; VAR g ; BEGIN END ; " +
		"MESSAGE 1 : BEGIN END ; MESSAGE 2 : BEGIN END ; END"
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		comments := 0
		var b strings.Builder
		for word := range strings.FieldsSeq(src) {
			b.WriteString(word + " ")
			switch random.IntN(8) {
			case 0:
				comments++
				fmt.Fprintf(&b, "# comment %d.\n", comments)
			case 1, 2:
				b.WriteString("\n")
			case 3:
				comments++
				fmt.Fprintf(&b, "\n\n# comment %d.\n", comments)
			}
		}
		formatted, err := Format("a.pdl", []byte(b.String()))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range comments {
			if n := strings.Count(string(formatted), fmt.Sprintf("# comment %d.", i+1)); n != 1 {
				t.Fatalf("seed %d: comment %d is there %d times\n%s", seed, i+1, n, formatted)
			}
		}
		if again, err := Format("a.pdl", formatted); err != nil || !bytes.Equal(again, formatted) {
			t.Fatalf("seed %d: %v, of\n%s\nformatted\n%s\nand once more\n%s", seed, err, b.String(), formatted, again)
		}
	}
}

// For any source, the compiler returns errors or a module that can be run, and the formatter
// keeps its meaning.
func FuzzCompile(f *testing.F) {
	for seed := range uint64(5) {
		f.Add([]byte(pdltest.Program(rand.New(rand.NewPCG(seed, 0)))))
	}
	if b, err := os.ReadFile("testdata/errors.pdl"); err == nil {
		for c := range bytes.SplitSeq(b, []byte("---\n")) {
			f.Add(c)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := Compile("fuzz.pdl", src)
		if err != nil {
			if s := err.Error(); len(s) > 30*2000 || strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
				t.Errorf("this is printed: %q", s)
			}
		}
		formatted, formatErr := Format("fuzz.pdl", src)
		if err != nil || formatErr != nil {
			return
		}
		again, err := Compile("fuzz.pdl", formatted)
		if err != nil || !slices.Equal(m.Code, again.Code) {
			t.Errorf("formatted it is another program (%v):\n%s", err, formatted)
		}
		if twice, err := Format("fuzz.pdl", formatted); err != nil || !bytes.Equal(twice, formatted) {
			t.Errorf("formatted it is\n%s\nand once more (%v)\n%s", formatted, err, twice)
		}
	})
}
