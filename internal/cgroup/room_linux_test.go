package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mib = 1 << 20

// tree makes files in a directory.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheRoomIsThatOfTheTightestCgroup(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, map[string]string{
		"v1/memory.limit_in_bytes": "9223372036854771712",
		"v1/memory.usage_in_bytes": "4096",
		// 100 MiB: 60 MiB are in use, and 10 MiB of these can be dropped.
		"v1/a/memory.limit_in_bytes":   "104857600",
		"v1/a/memory.usage_in_bytes":   "62914560",
		"v1/a/memory.stat":             "cache 1\ntotal_inactive_file 6291456\ntotal_active_file 4194304",
		"v1/a/b/memory.limit_in_bytes": "209715200",
		"v1/a/b/memory.usage_in_bytes": "1048576",
		"v1/a/b/memory.stat":           "hierarchical_memory_limit 104857600\ntotal_inactive_file 0\ntotal_active_file 0",
		"v2/cgroup.procs":              "",
		"v2/a/cgroup.procs":            "",
		"v2/a/memory.max":              "83886080", // 80 MiB: 40 MiB are in use
		"v2/a/memory.current":          "41943040",
		"v2/a/memory.stat":             "anon 1\ninactive_file 0\nactive_file 0",
		"v2/a/b/cgroup.procs":          "",
		"v2/a/b/memory.max":            "max",
		"v2/a/b/memory.current":        "20971520",
		"v2/free/cgroup.procs":         "",
		"v2/free/memory.max":           "max",
		"v2/free/memory.current":       "20971520",
		// This is the limit of a cgroup that a container does not see.
		"hidden/memory.limit_in_bytes": "9223372036854771712",
		"hidden/memory.usage_in_bytes": "5242880",
		"hidden/memory.stat":           "hierarchical_memory_limit 31457280",
	})
	for name, c := range map[string]struct {
		h           hierarchies
		limited     bool
		limit, left int64
		file        string
	}{
		"none":       {hierarchies{}, false, 0, 0, ""},
		"version 1":  {hierarchies{"memory": filepath.Join(dir, "v1/a/b")}, true, 100 * mib, 50 * mib, "v1/a/memory.limit_in_bytes"},
		"version 2":  {hierarchies{"": filepath.Join(dir, "v2/a/b")}, true, 80 * mib, 40 * mib, "v2/a/memory.max"},
		"both":       {hierarchies{"memory": filepath.Join(dir, "v1/a/b"), "": filepath.Join(dir, "v2/a/b")}, true, 80 * mib, 40 * mib, "v2/a/memory.max"},
		"a free one": {hierarchies{"": filepath.Join(dir, "v2/free")}, false, 0, 0, ""},
		"inherited":  {hierarchies{"memory": filepath.Join(dir, "hidden")}, true, 30 * mib, 25 * mib, "hidden/memory.stat"},
	} {
		r, limited, err := roomOf(c.h)
		file, _ := strings.CutPrefix(r.File, dir+"/")
		if err != nil || limited != c.limited || r.LimitBytes != c.limit || r.LeftBytes != c.left || file != c.file {
			t.Errorf("%s: limited %v, %+v (%v); want %v, %d of %d by %s", name, limited, r, err, c.limited, c.left, c.limit, c.file)
		}
	}
}
