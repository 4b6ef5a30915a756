package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// packaged is the folder with the files for Prometheus and Grafana.
const packaged = "../../packaging/metrics"

// shown returns the metrics of a daemon, each with the values of its labels.
func shown(t *testing.T) map[string]map[string][]string {
	t.Helper()
	s := serve(t, loopback(), daemonOf(nicOf(t, "udp", 3)))
	s.metrics() // the next scrape counts this one
	all, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]map[string][]string)
	for _, f := range all {
		found[f.GetName()] = make(map[string][]string)
		for _, m := range f.Metric {
			for _, l := range m.Label {
				found[f.GetName()][l.GetName()] = append(found[f.GetName()][l.GetName()], l.GetValue())
			}
		}
	}
	return found
}

var (
	metricName = regexp.MustCompile(`\b((?:weft|go|process)_[a-z0-9_]+)\b(?:\{([^}]*)\})?`)
	matcher    = regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`)
	grouping   = regexp.MustCompile(`\b(?:without|by|ignoring)\s*\(([^)]*)\)`)
)

// labelsOfPrometheus are the labels that Prometheus adds to each series.
var labelsOfPrometheus = []string{"job", "instance"}

// mistakes returns what is wrong with an expression: metrics, labels and causes that do not exist.
func mistakes(expr string, metrics map[string]map[string][]string) (wrong []string) {
	for _, m := range metricName.FindAllStringSubmatch(expr, -1) {
		labels, ok := metrics[m[1]]
		if !ok {
			wrong = append(wrong, "there is no metric "+m[1])
			continue
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if slices.Contains(labelsOfPrometheus, l[1]) {
				continue
			}
			if labels[l[1]] == nil {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", m[1], l[1]))
			}
			for value := range strings.SplitSeq(l[3], "|") {
				if !strings.HasPrefix(value, "$") && labels[l[1]] != nil && !slices.Contains(labels[l[1]], value) {
					wrong = append(wrong, fmt.Sprintf("%s has no series with %s=%q", m[1], l[1], value))
				}
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); !strings.Contains(expr, "weft_") || !hasLabel(metrics, expr, label) {
				wrong = append(wrong, "no metric of the expression has the label "+label)
			}
		}
	}
	return wrong
}

func hasLabel(metrics map[string]map[string][]string, expr, label string) bool {
	for _, m := range metricName.FindAllStringSubmatch(expr, -1) {
		if metrics[m[1]][label] != nil {
			return true
		}
	}
	return slices.Contains(labelsOfPrometheus, label)
}

func TestMistakesInExpressionsAreFound(t *testing.T) {
	metrics := shown(t)
	for expr, want := range map[string]string{
		`rate(weft_rel_sends_total{link="udp"}[5m])`:                        "",
		`sum without (cause) (weft_frames_dropped_total{cause=~"mac|tag"})`: "",
		`weft_rel_sends`: "no metric weft_rel_sends",
		`weft_frames_dropped_total{cause=~"mac|nonsense"}`: `no series with cause="nonsense"`,
		`weft_peers{status="up"}`:                          "no label status",
		`sum by (colour) (weft_peers)`:                     "label colour",
	} {
		if got := strings.Join(mistakes(expr, metrics), "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", expr, got, want)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(packaged, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	var board struct {
		UID        string
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			Description string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "weft-dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	metrics, ids, found := shown(t), make(map[int]bool), 0
	for _, v := range board.Templating.List {
		for _, wrong := range mistakes(v.Definition, metrics) {
			t.Errorf("variable %s: %s", v.Name, wrong)
		}
	}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d, %q: its id, title, description, queries or place is wrong", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			found++
			for _, wrong := range mistakes(q.Expr, metrics) {
				t.Errorf("panel %q, query %s: %s", p.Title, q.RefID, wrong)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d queries; the search must be broken", found)
	}
}

func TestTheAlertsWatchMetricsThatExist(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(read(t, "weft-rules.yml")))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	metrics, names := shown(t), make(map[string]bool)
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Groups[0].Rules {
		if names[r.Alert] || !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) ||
			r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("alert %s is there twice, or lacks severity, summary or description", r.Alert)
		}
		names[r.Alert] = true
		for _, wrong := range mistakes(r.Expr, metrics) {
			t.Errorf("alert %s: %s", r.Alert, wrong)
		}
		if !strings.Contains(string(page), "`"+r.Alert+"`") {
			t.Errorf("docs/metrics.md does not explain %s", r.Alert)
		}
	}
	if len(names) < 10 {
		t.Errorf("found %d alerts; the search must be broken", len(names))
	}
}

// promtool is Prometheus's own checker, of Debian's package prometheus.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("passed over: no promtool; apt-get install prometheus has it")
	}
	c := exec.CommandContext(t.Context(), path, args...)
	c.Dir, c.Stdin = packaged, bytes.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	s := serve(t, loopback(), daemonOf(nicOf(t, "fast0", 30), nicOf(t, "slow0", 30)))
	s.metrics()
	promtool(t, []byte(strings.Join(s.metrics(), "\n")+"\n"), "check", "metrics")
}

func TestPromtoolAcceptsTheAlertsAndTheyFireWhenTheyShould(t *testing.T) {
	promtool(t, nil, "check", "rules", "weft-rules.yml")
	promtool(t, nil, "test", "rules", "weft-rules-test.yml")
}
