package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// checkText returns what is wrong with the text of a configuration, or nil.
func checkText(text string) error {
	c, err := Parse([]byte(text))
	if err == nil {
		err = c.Check()
	}
	return err
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEachBoundOfAConfigurationIsKept(t *testing.T) {
	for _, c := range []struct {
		key         string // with %d in place of the value
		least, most int64
	}{
		{"max_processes = %d", 0, limits.MaxProcesses},
		{"region_bytes = %d", 0, limits.MaxRegion},
		{"staging_bytes = %d", limits.LeastStagingBytes, 1 << 30},
		{"slots = %d", 0, limits.SlotsPerHost},
		{"allow_uids = [%d]", 0, 1<<32 - 2},
		{"allow_gids = [%d]", 0, 1<<32 - 2},
		{"program_uids = [%d]", 0, 1<<32 - 2},
		{"unreachable_after = \"%dms\"", 10, 3600_000},
		{"[vni]\ncommands = 4096\nmax_contexts = %d\ncontexts = 1", 0, limits.MaxContexts},
		{"[vni]\nmax_pool_pages = %d", 0, limits.MaxPoolPages},
		{"[vni]\ndescriptors = %d", 0, limits.Descriptors},
		{"max_processes = 9\n[vni]\nprepared = %d", 0, 9},
		{"[gossip]\nlisten = \":7\"\nfailure_timeout = \"%dms\"", 3250, 3600_000},
	} {
		for _, n := range []int64{c.least, c.most} {
			err := checkText(fmt.Sprintf(c.key, n))
			// a limit of this system
			if err != nil && !strings.Contains(err.Error(), "holds for the daemon") {
				t.Errorf("%s: %v", fmt.Sprintf(c.key, n), err)
			}
		}
		for _, n := range []int64{c.least - 1, c.most + 1} {
			if err := checkText(fmt.Sprintf(c.key, n)); err == nil {
				t.Errorf("%s is taken", fmt.Sprintf(c.key, n))
			}
		}
	}
}

func TestWhatAConfigurationLacksIsNamed(t *testing.T) {
	dir := t.TempDir()
	registry := filepath.Join(dir, "nodes.toml")
	writeText(t, registry, "torus = [2, 3]\n")
	id := newIdentity(t, 9)
	for text, want := range map[string]string{
		"torus = [2, 2]\nregistry = \"" + registry + "\"":         "torus: [2, 2], but [2, 3] in " + registry,
		"certificate = \"" + id.dir + "/certificate\"":            "certificate: no authority is named",
		"certificate = \"/no/such\"":                              "certificate:",
		"authorities = [\"/no/such\"]":                            "authorities:",
		"revocations = \"" + id.dir + "/revocations\"":            "revocations: no authority is named",
		"key_files = [\"/no/such\"]":                              "key_files:",
		"id = \"0:0:0:0:0:0:0:9\"\nstate_dir = \"" + dir + "/s\"": "id: there is no static key yet to which NIC",
		"[grants]\n\"17\" = [\"observe\"]":                        "grants.17:",
		"[grants]\n\"0:0:0:0:0:0:0:2\" = [\"fly\"]":               "grants.0:0:0:0:0:0:0:2:",
		"capture_limit = 100000":                                  "capture: no file is named",
		"capture_snap = 128":                                      "capture: no file is named",
		"capture_secrets = true":                                  "capture: no file is named",
	} {
		if err := checkText(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; expected %q", text, err, want)
		}
	}
	same := "torus = [2, 3]\nposition = [1, 2]\nregistry = \"" + registry + "\""
	if err := checkText(same); err != nil {
		t.Errorf("one torus in both files: %v", err)
	}
	var links, tables strings.Builder
	for i := range limits.LinksOfDaemon {
		fmt.Fprintf(&links, ",l%d", i)
		fmt.Fprintf(&tables, "[links.l%d]\nlisten = \"127.0.0.1:%d\"\n", i, 7001+i)
	}
	if err := checkText(fmt.Sprintf("link = \"udp%s\"\n%s", &links, &tables)); err == nil || !strings.Contains(err.Error(), "links; expected at most") {
		t.Errorf("one link too many: %v", err)
	}
	few := strings.TrimSuffix(links.String(), fmt.Sprintf(",l%d", limits.LinksOfDaemon-1))
	if err := checkText(fmt.Sprintf("link = \"udp%s\"\n%s", few, &tables)); err != nil {
		t.Errorf("as many links as there may be: %v", err)
	}
}

// A process gets the sizes that it asks for, within the configuration's bounds, and the usual
// sizes for the rest.
func TestEachBoundOfAProcessesGeometryIsKept(t *testing.T) {
	usual := vni.Geometry{Commands: 64, Contexts: 8, Descriptors: 4, PoolPages: 16}
	s := &settings{usual: usual, most: vni.Geometry{Commands: 256, Contexts: 40, Descriptors: 8, PoolPages: 32}}
	for _, c := range []struct {
		asked *ctl.Geometry
		want  vni.Geometry
		good  bool
	}{
		{nil, usual, true},
		{&ctl.Geometry{}, usual, true},
		{&ctl.Geometry{Contexts: 16}, vni.Geometry{Commands: 64, Contexts: 16, Descriptors: 4, PoolPages: 16}, true},
		{&ctl.Geometry{Contexts: 20}, vni.Geometry{Commands: 80, Contexts: 20, Descriptors: 4, PoolPages: 16}, true},
		{&ctl.Geometry{Contexts: 40}, vni.Geometry{Commands: 160, Contexts: 40, Descriptors: 4, PoolPages: 16}, true},
		{&ctl.Geometry{Contexts: 41}, usual, false},
		{&ctl.Geometry{Contexts: -1}, usual, false},
		{&ctl.Geometry{Commands: 256}, vni.Geometry{Commands: 256, Contexts: 8, Descriptors: 4, PoolPages: 16}, true},
		{&ctl.Geometry{Commands: 257}, usual, false},
		{&ctl.Geometry{Commands: 264}, usual, false},
		{&ctl.Geometry{Commands: 15}, usual, false},
		{&ctl.Geometry{Descriptors: 8}, vni.Geometry{Commands: 64, Contexts: 8, Descriptors: 8, PoolPages: 16}, true},
		{&ctl.Geometry{Descriptors: 9}, usual, false},
		{&ctl.Geometry{PoolPages: 1}, vni.Geometry{Commands: 64, Contexts: 8, Descriptors: 4, PoolPages: 1}, true},
		{&ctl.Geometry{PoolPages: 32}, vni.Geometry{Commands: 64, Contexts: 8, Descriptors: 4, PoolPages: 32}, true},
		{&ctl.Geometry{PoolPages: 33}, usual, false},
	} {
		g, err := s.choose(c.asked)
		if c.good != (err == nil) || c.good && g != c.want {
			t.Errorf("%+v: %+v, %v; expected %+v", c.asked, g, err, c.want)
		}
	}
	s.most.Commands = 128
	if g, err := s.choose(&ctl.Geometry{Contexts: 32}); err != nil || g.Commands != 128 {
		t.Errorf("the commands that contexts need are %d, %v; expected as many as are permitted, 128", g.Commands, err)
	}
}
