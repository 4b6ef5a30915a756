package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheDemoEndsWellAndShowsItsTable(t *testing.T) {
	if testing.Short() {
		t.Skip("internal/demo has a shorter one")
	}
	status, stdout, stderr := weft("demo")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "retransmitted") || !strings.Contains(stdout, "All is well") {
		t.Errorf("status %d, output:\n%s%s", status, stdout, stderr)
	}
	checkREADME(t, stdout)
}

func TestTheDemoSaysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"demo --loss 5":    `invalid argument "5" for "--loss" flag: expected a share such as 5% or 0.05`,
		"demo --loss 100%": `--loss 100%: expected less, since no frame would arrive`,
		"demo --seed -1":   `invalid argument "-1" for "--seed" flag: `,
		"demo now":         `arguments "now": expected weft demo [flags]`,
	} {
		status, stdout, stderr := weft(strings.Fields(line)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+want) || stdout != "" {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}

// README and the help once gave different times.
func TestREADMEAndHelpAgreeOnHowLongTheDemoTakes(t *testing.T) {
	_, help, _ := weft("demo", "--help")
	const long = "takes a few seconds"
	for where, text := range map[string]string{"README.md": readme(t), "weft demo --help": help} {
		if !strings.Contains(text, long) {
			t.Errorf("%s does not say that it %s", where, long)
		}
	}
}

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// form returns a line of the demo without its figures.
func form(line string) string {
	figures := regexp.MustCompile(`[\d,.]+`)
	units := regexp.MustCompile(`(µs|ms|MB/s|GB/s) +| {2,}`)
	return units.ReplaceAllString(figures.ReplaceAllString(line, "0"), " ")
}

// checkREADME checks that README shows lines such as a demo has printed.
func checkREADME(t *testing.T, printed string) {
	t.Helper()
	blocks := strings.Split(readme(t), "```\n")
	if len(blocks) < 4 || !strings.Contains(blocks[3], "round trip") {
		t.Fatal("the second block of README.md is not what the demo prints")
	}
	of := make(map[string]bool)
	for line := range strings.Lines(printed) {
		of[form(line)] = true
	}
	for line := range strings.Lines(blocks[3]) {
		if !of[form(line)] {
			t.Errorf("README.md shows %q, and a demo prints\n%s", line, printed)
		}
	}
}
