package stuck

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// mostLines limits the number of ranks that each part of the text lists individually.
const mostLines = 16

// Text writes the report as text.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s on %s\n", r.Job, count(r.Size, "rank"), count(r.Hosts, "host"))
	for i, c := range r.Causes {
		word := "cause"
		if i > 0 {
			word = "also"
		}
		fmt.Fprintf(&b, "%s: %s\n", word, c.Text)
		for _, d := range c.Details {
			fmt.Fprintf(&b, "  %s\n", d)
		}
	}
	told := map[int]bool{}
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "%s: %s\n", g.Title, g.Text)
		for i, m := range g.Missing {
			if told[m.Rank] = true; i < mostLines {
				fmt.Fprintf(&b, "  rank %d %s\n", m.Rank, m.Text)
			}
		}
		if n := len(g.Missing) - mostLines; n > 0 {
			fmt.Fprintf(&b, "  and %s\n", count(n, "more rank"))
		}
		for _, n := range g.In {
			told[n] = true
		}
	}
	lines, more := 0, 0
	for _, k := range r.Ranks {
		switch {
		case told[k.Rank]:
		case lines == mostLines:
			more++
		default:
			lines++
			fmt.Fprintf(&b, "rank %d%s %s\n", k.Rank, on(k.Node), k.Text)
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "and %s\n", count(more, "more rank"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func on(node string) string {
	if node == "" {
		return ""
	}
	return " on " + node
}

// waits returns the verb for one rank that has waited for ns nanoseconds. wait returns the verb
// for several.
func waits(ns int64) string {
	if d := waited(ns); d != "" {
		return "has waited " + d
	}
	return "waits"
}

func wait(ns int64) string {
	if d := waited(ns); d != "" {
		return "have waited " + d
	}
	return "wait"
}

func waited(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Millisecond:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// numbersText lists numbers in order, with ranges such as "3-5".
func numbersText(n []int) string {
	var l []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		switch {
		case j > i+1:
			l = append(l, fmt.Sprintf("%d-%d", n[i], n[j]))
		default:
			j = i
			l = append(l, fmt.Sprint(n[i]))
		}
		i = j + 1
	}
	if len(l) > 2*mostLines {
		l = append(l[:2*mostLines], "…")
	}
	return strings.Join(l, ", ")
}

func ranksText(n []int) string {
	if len(n) == 1 {
		return fmt.Sprintf("rank %d", n[0])
	}
	return "ranks " + numbersText(n)
}
