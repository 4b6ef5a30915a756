package weft_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// importRules is the import picture: "a < b" means that b may import a, and every package that a
// may import. If several packages stand between commas, each package on the right may import each
// of them. Rules end at the end of the line or at two spaces. Every package must occur. Names
// omit the folder internal/; "weft" is the root.
//
// Tests may import any package, because the picture shows only the packages that users of a
// package compile. docs/architecture.md shows the same picture to readers, and a test compares
// the two.
const importRules = `
NONE < limits, mutate, testbed, version    limits < all but clock    NONE < target < clock, nicid
NONE < testenv, picture, crc, copier  NONE < plain < weft, parallel  link/udp < link/xdp
NONE < newcomers < proxy, nbd, metrics     vni < metrics < daemon      NONE < memfile      NONE < freelist < rel      NONE < histogram < vni, rel
NONE < interleave < interleave/{atomic,sync}
NONE < secret < rel, nic      wire, secret, trust < seal < rel      nic, poller, trust < secure < weft, daemon     fabric < fabric/fabrictest
nicid < trust < rel, registry, daemon, weft
trust < fabric < daemon, weft, bench      fabric, ctl < fabric/authority      trust < fabric/grants
clock < wire, link, registry      nicid < vni, rel, registry      crc < wire       copier < link/{udp,shm}
mutate < rel, vni, names, coll, program, nic, proc      nic, proc < simulated < sim
link < link/{mem,fault,capture,udp,shm,linktest}      clock, wire < rel      seal < link/capture
clock < hotel < rel, bench      wire < tree < coll, sweep
vni, link, rel, driver, names, coll, relay, program < nic < poller    vni < proc, driver
vni, rel < names, coll, relay, program            pdl/vm < program
clock, mutate < hsn      weft, hsn < netmem < bench      weft < stream < bench      mutate, weft < parallel < bench      weft < proxy      vni, weft < stage
clock < paging < userfault < netmem              NONE < userfault/faulttest
clock < idle < poller, ctl, daemon                registry < ctl     NONE < memory/touch < proc     refusal < memory/hugepage < weft, daemon, parallel     NONE < standin < daemon    NONE < sdnotify < daemon
refusal < memfd < userfault, daemon          refusal < netmem, memfile, userfault, link/shm, daemon          refusal, cgroup < refusal/refusaltest
NONE < memory/filemem < ctl, weft, daemon          ctl, registry, fabric, cgroup, userfault, link/xdp < doctor          NONE < cgroup < ranks, daemon, refusal    NONE < procstat < ranks, daemon, bench/machine    vni, ctl < stuck
proc, poller, ctl, link/{mem,fault,capture,udp,shm,xdp}, registry < weft
limits, vni < environ < weft      NONE < pmi < weft
weft, ctl, registry, pmi, mutate < launch < launch/launchtest      sim < launch/launchtest
weft < sim, load, workqueue < processtest     sim, pdl < sweep, processtest
load, hostile, pdl, pdl/vm, pdl/kernels < bench < demo        load < demo
proc, ctl < expose < weft      deploy, expose, weft < weft/program < bench, processtest
program, ctl < deploy < weft, daemon                vni, ctl < hostile
testbed, load < bench/limit < bench      testbed, limits < bench/machine
load < soak
registry < registry/file                          limits, registry < registry/gossip
proc, poller, link/{mem,fault,capture,udp,xdp}, registry/{file,gossip}, ctl, version < daemon
NONE < pdl/prog, pdl/prog/opgen, pdl/pdltest, pdl/kernels      pdl/prog < pdl, pdl/vm      pdl/vm < pdl/vm/mem
wire, pdl/vm < pdl/ebpf      pdl/ebpf, program < resident < daemon, weft
weft < examples/{open,attach,call,memory,multicast,groups,events,world}      weft, sim < examples/simulation      parallel < examples/{heat,life,primes,matmul,nbody,sort,cg}
everything < cmd/weft
`

// rootModules lists the modules of others that an import of weft may add. netlink adds netns.
var rootModules = []string{
	"golang.org/x/sys",
	"github.com/cilium/ebpf",
	"github.com/flynn/noise",
	"golang.org/x/crypto",
	"github.com/vishvananda/netlink",
	"github.com/vishvananda/netns",
}

const module = "github.com/weftnet/weft"

// short returns a package's name in the rules. ok is false for packages of others.
func short(path string) (name string, ok bool) {
	if path == module {
		return "weft", true
	}
	name, ok = strings.CutPrefix(path, module+"/")
	if name == "program" { // the public interface to internal/program
		return "weft/program", true
	}
	return strings.TrimPrefix(name, "internal/"), ok
}

// relation says which packages each package may import.
type relation map[string]map[string]bool

// parseRules parses an import picture into its relation.
func parseRules(text string) (relation, error) {
	rules, err := splitRules(text)
	if err != nil {
		return nil, err
	}
	r := make(relation)
	for _, rule := range rules {
		for _, list := range rule {
			for _, name := range list {
				if !strings.HasPrefix(name, "all but ") && name != "everything" && name != "NONE" {
					r[name] = make(map[string]bool)
				}
			}
		}
	}
	for _, rule := range rules {
		for i := range len(rule) - 1 {
			if err := r.add(rule[i], rule[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return r, r.close()
}

var (
	ruleEnd  = regexp.MustCompile(`\n|  +`)
	ruleName = regexp.MustCompile(`^(all but )?[A-Za-z0-9_/]+$`)
	braces   = regexp.MustCompile(`([\w/]*)\{([\w,]*)\}`)
)

// splitRules cuts a text into rules, each a chain of lists of names.
func splitRules(text string) (rules [][][]string, err error) {
	text = braces.ReplaceAllStringFunc(text, func(s string) string {
		m := braces.FindStringSubmatch(s)
		return m[1] + strings.Join(strings.Split(m[2], ","), ", "+m[1])
	})
	for _, line := range ruleEnd.Split(text, -1) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var rule [][]string
		for chain := range strings.SplitSeq(line, "<") {
			var list []string
			for name := range strings.SplitSeq(chain, ",") {
				name = strings.TrimPrefix(strings.TrimSpace(name), "internal/")
				if !ruleName.MatchString(name) {
					return nil, fmt.Errorf("rule %q: %q is no name", line, name)
				}
				list = append(list, name)
			}
			rule = append(rule, list)
		}
		if len(rule) < 2 {
			return nil, fmt.Errorf("rule %q: nothing is less than anything", line)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// add records that each package of high may import each package of low.
func (r relation) add(low, high []string) error {
	low, high = r.expand(low, high), r.expand(high, low)
	for _, h := range high {
		for _, l := range low {
			if r[l] == nil || r[h] == nil {
				return fmt.Errorf("%q < %q: not a name", l, h)
			}
			r[h][l] = true
		}
	}
	return nil
}

// expand replaces the words that stand for many packages. other is the opposite side, which these
// words exclude.
func (r relation) expand(list, other []string) []string {
	var names []string
	for _, name := range list {
		but, all := strings.CutPrefix(name, "all but ")
		switch {
		case name == "NONE":
		case all || name == "everything":
			for _, n := range slices.Sorted(maps.Keys(r)) {
				if n != but && !slices.Contains(other, n) {
					names = append(names, n)
				}
			}
		default:
			names = append(names, name)
		}
	}
	return names
}

// close adds the indirect imports, and fails if a package would import itself.
func (r relation) close() error {
	for via := range r {
		for _, may := range r {
			if may[via] {
				maps.Copy(may, r[via])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if r[name][name] {
			return fmt.Errorf("the rules run in a circle through %s", name)
		}
	}
	return nil
}

// violations lists the imports of a graph that the relation does not permit.
func (r relation) violations(graph map[string][]string) (list []string) {
	for _, path := range slices.Sorted(maps.Keys(graph)) {
		name, _ := short(path)
		may, listed := r[name]
		if !listed {
			list = append(list, fmt.Sprintf("%s is not in the import picture (deps_test.go)", name))
			continue
		}
		for _, imported := range graph[path] {
			if i, ours := short(imported); ours && !may[i] {
				list = append(list, fmt.Sprintf("%s imports %s", name, i))
			}
		}
	}
	return list
}

// listed holds the fields of a package's `go list -json` output that the test needs.
type listed struct {
	ImportPath string
	Standard   bool
	GoFiles    []string
	Imports    []string
	Module     *struct{ Path string }
}

// goList runs go list for each system for which Weft has its own code, and joins the results.
func goList(t *testing.T, args ...string) map[string]*listed {
	t.Helper()
	found := make(map[string]*listed)
	for _, goos := range []string{"linux", "darwin"} {
		const fields = "-json=ImportPath,Standard,GoFiles,Imports,Module"
		cmd := exec.Command("go", append([]string{"list", "-e", fields}, args...)...)
		cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for d := json.NewDecoder(out); ; {
			p := new(listed)
			if err := d.Decode(p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if q := found[p.ImportPath]; q != nil {
				p.GoFiles = append(p.GoFiles, q.GoFiles...)
				p.Imports = append(p.Imports, q.Imports...)
			}
			found[p.ImportPath] = p
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func TestImportsPointOneWay(t *testing.T) {
	rules, err := parseRules(importRules)
	if err != nil {
		t.Fatal(err)
	}
	graph := make(map[string][]string)
	for path, p := range goList(t, "./...") {
		if len(p.GoFiles) == 0 {
			continue // a folder that holds only tests
		}
		graph[path] = slices.Compact(slices.Sorted(slices.Values(p.Imports)))
	}
	if len(graph) < 10 {
		t.Fatalf("go list finds only %d packages", len(graph))
	}
	for _, v := range rules.violations(graph) {
		t.Error(v)
	}
}

func TestWeftBringsFewModulesAlong(t *testing.T) {
	packages := goList(t, "-deps", ".")
	if packages[module] == nil {
		t.Fatal("go list does not find the root package")
	}
	for _, v := range foreign(packages, module, rootModules) {
		t.Error(v)
	}
}

// foreign lists the packages that root imports, directly or indirectly, from modules that are not
// allowed. Each entry includes the import path that leads to the package.
func foreign(packages map[string]*listed, root string, allowed []string) (list []string) {
	from := map[string]string{root: ""}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		path := queue[0]
		p := packages[path]
		if p == nil || p.Standard {
			continue
		}
		if p.Module != nil && p.Module.Path != module && !slices.Contains(allowed, p.Module.Path) {
			way := path
			for at := from[path]; at != ""; at = from[at] {
				way = at + " → " + way
			}
			list = append(list, way)
			continue // its imports add no news
		}
		for _, i := range p.Imports {
			if _, seen := from[i]; !seen {
				from[i] = path
				queue = append(queue, i)
			}
		}
	}
	return list
}

// The document shows the picture in its own block. The layout may differ, but the content must be
// the same.
func TestArchitectureShowsTheImportPicture(t *testing.T) {
	const file = "docs/architecture.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(NONE < .*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("%s has no block that begins with \"NONE <\"", file)
	}
	shown, err := parseRules(string(block[1]))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	held, err := parseRules(importRules)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range held.differences(shown) {
		t.Errorf("%s: %s", file, d)
	}
}

// differences lists the differences between two relations.
func (r relation) differences(other relation) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if other[name] == nil {
			list = append(list, fmt.Sprintf("does not show %s", name))
			continue
		}
		for _, low := range slices.Sorted(maps.Keys(r)) {
			if r[name][low] && !other[name][low] {
				list = append(list, fmt.Sprintf("does not show that %s may import %s", name, low))
			}
			if !r[name][low] && other[name][low] {
				list = append(list, fmt.Sprintf("shows that %s may import %s, which it may not", name, low))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(other)) {
		if r[name] == nil {
			list = append(list, fmt.Sprintf("shows %s, of which the rules know nothing", name))
		}
	}
	return list
}

func TestRulesCatchWrongImports(t *testing.T) {
	rules, err := parseRules("NONE < limits, clock  limits < all but clock\nclock < link < link/{mem,udp}\nclock < rel  link, rel < nic  everything < cmd/weft")
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string {
		if name == "cmd/weft" {
			return module + "/" + name
		}
		return module + "/internal/" + name
	}
	for _, c := range []struct{ importer, imported, want string }{
		{"nic", "rel", ""},
		{"nic", "clock", ""}, // through link
		{"link/udp", "link", ""},
		{"link/udp", "limits", ""},
		{"cmd/weft", "link/mem", ""},
		{"cmd/weft", "nic", ""},
		{"rel", "link", "rel imports link"},
		{"link", "nic", "link imports nic"},
		{"link/udp", "link/mem", "link/udp imports link/mem"},
		{"nic", "link/mem", "nic imports link/mem"},
		{"clock", "limits", "clock imports limits"},
		{"limits", "clock", "limits imports clock"},
		{"nic", "cmd/weft", "nic imports cmd/weft"},
		{"nic", "stranger", "nic imports stranger"},
		{"stranger", "clock", "stranger is not in the import picture (deps_test.go)"},
	} {
		got := strings.Join(rules.violations(map[string][]string{path(c.importer): {"fmt", path(c.imported)}}), "; ")
		if got != c.want {
			t.Errorf("%s → %s: %q, want %q", c.importer, c.imported, got, c.want)
		}
	}
}

func TestRulesThatMakeNoSenseAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"a < b  b < c  c < a": "the rules run in a circle through a",
		"a":                   "nothing is less than anything",
		"a < < b":             `"" is no name`,
		"a < b c":             `"b c" is no name`,
	} {
		if _, err := parseRules(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestForeignModulesAreFoundThroughOthers(t *testing.T) {
	mod := func(path string) *struct{ Path string } { return &struct{ Path string }{path} }
	packages := map[string]*listed{
		module:             {Module: mod(module), Imports: []string{"fmt", module + "/a"}},
		module + "/a":      {Module: mod(module), Imports: []string{"good.org/x/y", "bad.org/z"}},
		"good.org/x/y":     {Module: mod("good.org/x"), Imports: []string{"os"}},
		"bad.org/z":        {Module: mod("bad.org/z"), Imports: []string{"bad.org/z/more"}},
		"bad.org/z/more":   {Module: mod("bad.org/z")},
		"fmt":              {Standard: true},
		"os":               {Standard: true},
		"bad.org/unneeded": {Module: mod("bad.org/unneeded")},
	}
	got := foreign(packages, module, []string{"good.org/x"})
	if want := []string{module + " → " + module + "/a → bad.org/z"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestPicturesThatDifferAreToldApart(t *testing.T) {
	a, err := parseRules("NONE < x, y, z  x < y")
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseRules("NONE < x, y, w  y < x")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"shows that x may import y, which it may not", "does not show that y may import x",
		"does not show z", "shows w, of which the rules know nothing"}
	if got := a.differences(b); !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
	if got := a.differences(a); got != nil {
		t.Errorf("a picture differs from itself: %q", got)
	}
}
