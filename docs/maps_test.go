package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rewrite makes the tests write the test columns of the maps again, from the lists of breaks.
var rewrite = flag.Bool("rewrite", false, "write the tests of each row into the maps")

// A demandMap is a page with a row for each demand of a design.
type demandMap struct {
	file, mark  string // mark of its items: mark-1, mark-A1
	items, open int    // number of numbered demands, and of open points of the design
	breaks      []lineBreak
}

var demandMaps = []demandMap{
	{"docs/qnix.md", "QNIX", 62, 12, breaksOfQNIX},
	{"docs/usnic.md", "USNIC", 61, 6, breaksOfUSNIC},
	{"docs/hsn.md", "HSN", 40, 9, breaksOfHSN},
	{"docs/netstar.md", "NETSTAR", 31, 0, breaksOfNETSTAR},
	{"docs/panic.md", "PANIC", 47, 0, breaksOfPANIC},
}

// where finds the files that a row names, and the text to look for in them. ident finds the names
// in that text.
var (
	where = regexp.MustCompile("`([a-z0-9_/]+\\.go)`(?: \\(([^)]+)\\))?")
	ident = regexp.MustCompile("`(\\w+)`")
)

// mapRow is a row of a map: item, demand, the place that meets it, the tests that show it, and
// today's reading. A row for an open point of the design has Weft's choice in the third place,
// and the tests after it.
type mapRow struct {
	line  int
	cells []string
}

func (r mapRow) item() string  { return r.cells[0] }
func (r mapRow) where() string { return r.cells[2] }
func (r mapRow) shown() string { return r.cells[3] }

// rows returns the rows of a map.
func (m demandMap) rows(text string) (rows []mapRow) {
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| "+m.mark+"-") {
			continue
		}
		r := mapRow{line: i}
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			r.cells = append(r.cells, strings.TrimSpace(c))
		}
		rows = append(rows, r)
	}
	return rows
}

func TestEveryDemandHasOneRow(t *testing.T) {
	for _, m := range demandMaps {
		count := make(map[string]int)
		for _, r := range m.rows(read(t, m.file)) {
			want := 5
			if strings.HasPrefix(r.item(), m.mark+"-A") {
				want = 4
			}
			if len(r.cells) != want {
				t.Fatalf("%s: the row of %s has %d cells; expected %d", m.file, r.item(), len(r.cells), want)
			}
			count[r.item()]++
		}
		want := func(item string) {
			if count[item] != 1 {
				t.Errorf("%s has %d rows for %s; expected 1", m.file, count[item], item)
			}
			delete(count, item)
		}
		for i := 1; i <= m.items; i++ {
			want(fmt.Sprintf("%s-%d", m.mark, i))
		}
		for i := 1; i <= m.open; i++ {
			want(fmt.Sprintf("%s-A%d", m.mark, i))
		}
		for item := range count {
			t.Errorf("%s has a row for %s, which the design does not", m.file, item)
		}
	}
}

// The rows name files, and in parentheses the text to look for in them. A row whose code is gone
// is worse than no row.
func TestRowsNameCodeThatIsThere(t *testing.T) {
	for _, m := range demandMaps {
		found := 0
		for _, r := range m.rows(read(t, m.file)) {
			for _, w := range where.FindAllStringSubmatch(r.where(), -1) {
				for _, id := range ident.FindAllStringSubmatch(w[2], -1) {
					found++
					if !regexp.MustCompile(`\b` + id[1] + `\b`).MatchString(read(t, w[1])) {
						t.Errorf("the row of %s names %s in %s, which is not there", r.item(), id[1], w[1])
					}
				}
			}
			if !strings.HasPrefix(r.item(), m.mark+"-A") && !where.MatchString(r.where()) {
				t.Errorf("the row of %s names no file", r.item())
			}
		}
		if found < 20 {
			t.Errorf("found %d names of code in %s; the search must be broken", found, m.file)
		}
	}
}

// The tests of a row are those that fail when it is broken. The lists of breaks hold these tests,
// and the maps repeat them.
func TestRowsNameTheTestsThatShowThem(t *testing.T) {
	for _, m := range demandMaps {
		text := read(t, m.file)
		lines, changed := strings.Split(text, "\n"), false
		known := make(map[string]bool)
		for _, r := range m.rows(text) {
			known[r.item()] = true
			want := shownBy(m.breaks, r.item())
			if want == "" {
				want = "–" // the item is a word, a structure or a choice
			}
			if r.shown() == want {
				continue
			}
			if !*rewrite {
				t.Errorf("%s says that %s is shown by %s; its breaks say by %s (go test ./docs -args -rewrite)", m.file, r.item(), r.shown(), want)
			}
			r.cells[3] = want
			lines[r.line] = strings.ReplaceAll("| "+strings.Join(r.cells, " | ")+" |", "|  |", "| |")
			changed = true
		}
		for _, b := range m.breaks {
			if !known[b.item] {
				t.Errorf("there is a break of %s, which %s does not have", b.item, m.file)
			}
		}
		if *rewrite && changed {
			if err := os.WriteFile(filepath.Join(root, m.file), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
