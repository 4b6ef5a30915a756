package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

var rewrite = flag.Bool("rewrite", false, "write docs/counters.md")

// pageHead is the text of docs/counters.md before its tables.
const pageHead = `# Counters

Each NIC counts what it does. ` + "`weft stat`" + ` prints the counters, ` + "`weft stat --explain`" + ` prints this
page, and [weft nic --metrics](metrics.md) serves them to Prometheus. Counters whose names end in
` + "`_now`" + ` are levels; their metrics are gauges. All others grow from the start of the NIC.
[The NIC daemon](nic.md#counters) says with which counters to begin.

A test writes this page from the table in [internal/vni/countertable.go](../internal/vni/countertable.go):
` + "`go test ./internal/metrics -run Page -args -rewrite`" + `.
`

// parts are the tables of the page, one for each part of the NIC that counts.
var parts = []struct{ part, title, text string }{
	{"rel", "Endpoint", "The endpoint makes a lossy link reliable ([rel.md](rel.md))."},
	{"drop", "Dropped frames", "The endpoint drops each frame that fails a check, and counts it under one cause."},
	{"nic", "Engine", "The engine handles processes, names, groups and programs ([architecture](architecture.md#the-engine))."},
	{"link", "Link", "The driver of the link ([links](links.md))."},
}

func countersPage() string {
	var page strings.Builder
	page.WriteString(pageHead)
	for _, p := range parts {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| counter | metric | what it counts |\n|---|---|---|\n", p.title, p.text)
		for _, d := range vni.Descriptions() {
			if d.Part() == p.part {
				fmt.Fprintf(&page, "| `%s` | `%v` | %s |\n", d.Name, MetricOf(d), d.Help)
			}
		}
	}
	return page.String()
}

func TestThePageOfCountersIsThatOfTheTable(t *testing.T) {
	const file = "../../docs/counters.md"
	want := countersPage()
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("docs/counters.md is not what the table says, %v; run go test ./internal/metrics -run Page -args -rewrite", err)
	}
	for _, d := range vni.Descriptions() {
		if n := strings.Count(want, "| `"+d.Name+"` |"); n != 1 {
			t.Errorf("the page has %s %d times", d.Name, n)
		}
	}
}
