package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheGroupsOfTheProcessorAreFoundFromTheInnermostOutwards(t *testing.T) {
	mounts := "32 23 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 23 0:29 / /cg/mem rw - cgroup cgroup rw,memory\n"
	h, err := parseOf(strings.NewReader(mounts), strings.NewReader("5:cpu,cpuacct:/a/b\n4:memory:/c\n"), []string{"cpu"})
	if err != nil || !maps.Equal(h, hierarchies{"cpu": "/cg/cpu/a/b"}) {
		t.Errorf("found %v, %v", h, err)
	}
	dirs, err := CPU("self")
	if err != nil {
		t.Skip(err)
	}
	for i, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			t.Errorf("group %d is none: %v", i, err)
		}
	}
	if _, err := CPU("no-such-process"); err == nil {
		t.Error("the groups of a process that does not exist are found")
	}
}

func TestTheOwnGroupIsFoundInEveryHierarchy(t *testing.T) {
	for _, c := range []struct {
		name, mounts, member string
		want                 hierarchies
	}{
		{
			"version 2 alone",
			"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			"0::/system.slice/weft.service\n",
			hierarchies{"": "/sys/fs/cgroup/system.slice/weft.service"},
		},
		{
			"version 1, with controllers that share a hierarchy",
			"31 23 0:27 / /cg/pids rw - cgroup cgroup rw,pids\n" +
				"32 23 0:28 / /cg/mem,freeze rw - cgroup cgroup rw,memory,freezer\n" +
				"33 23 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n",
			"9:name=systemd:/\n8:pids:/a\n6:freezer,memory:/b/c\n",
			hierarchies{"pids": "/cg/pids/a", "memory": "/cg/mem,freeze/b/c", "freezer": "/cg/mem,freeze/b/c"},
		},
		{
			"both",
			"31 23 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n32 23 0:28 / /cg/unified rw - cgroup2 cgroup2 rw\n",
			"4:memory:/x\n0::/\n",
			hierarchies{"memory": "/cg/memory/x", "": "/cg/unified"},
		},
		{
			"a container that sees a part of the hierarchy",
			"31 23 0:27 /docker/12 /cg rw master:2 - cgroup2 none rw\n",
			"0::/docker/12/inner\n",
			hierarchies{"": "/cg/inner"},
		},
		{
			"a mount of another part",
			"31 23 0:27 /docker/1 /cg rw - cgroup2 none rw\n",
			"0::/docker/12\n",
			hierarchies{},
		},
		{
			"a mount point with a space, after other lines",
			"22 1 8:1 / / rw - ext4 /dev/sda1 rw\nshort line\n31 23 0:27 / /my\\040cg rw - cgroup2 none rw\n",
			"0::/a b\n",
			hierarchies{"": "/my cg/a b"},
		},
	} {
		got, err := parse(strings.NewReader(c.mounts), strings.NewReader(c.member))
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: found %v (%v); expected %v", c.name, got, err, c.want)
		}
	}
	if _, err := parse(strings.NewReader(""), strings.NewReader("what is this\n")); err == nil {
		t.Error("a strange /proc/self/cgroup is accepted")
	}
}

func TestMemoryOfVersion2IsRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "outer", "job", ranksDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		dir + "/memory.events":         "low 0\nhigh 2\nmax 31\noom 5\noom_kill 3\noom_group_kill 0\n",
		dir + "/memory.max":            "max\n",
		dir + "/../memory.max":         "536870912\n",
		dir + "/../../memory.max":      "1073741824\n",
		dir + "/memory.swap.max":       "max\n",
		dir + "/cgroup.procs":          "",
		dir + "/cgroup.kill":           "",
		dir + "/pids.max":              "max\n",
		dir + "/../cgroup.procs":       "",
		dir + "/../../cgroup.procs":    "",
		dir + "/../cgroup.controllers": "memory pids\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := Open(filepath.Dir(dir))
	if err != nil || g.Unified == "" || g.Memory != "" || g.Pids != "" {
		t.Fatalf("the group is %+v (%v); expected version 2", g, err)
	}
	o, err := g.OOM()
	if err != nil || o != (OOM{Kills: 3, LimitBytes: 512 << 20}) || o.String() != "cgroup limit 512 MiB" {
		t.Errorf("the group has %+v, %q (%v); expected 3 kills and 512 MiB", o, o, err)
	}
	if err := g.LimitMemory(100 << 20); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "104857600", "memory.swap.max": "0"} {
		if got, err := read(filepath.Join(dir, file)); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s holds %q (%v); expected %s", file, got, err, want)
		}
	}
}

func TestSizesAreWrittenInTheLargestUnitThatFits(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1000: "1000 B", 1536: "1536 B", 2048: "2 KiB", 32 << 20: "32 MiB", 5 << 30: "5 GiB",
		1 << 40: "1 TiB", 1 << 52: "4096 TiB",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("%d bytes are %q; expected %q", bytes, got, want)
		}
	}
	if got := (OOM{}).String(); got != "memory of the host" {
		t.Errorf("memory without a limit is %q", got)
	}
}

func TestAHostWithoutACgroupFileSystemIsTheReason(t *testing.T) {
	_, err := hierarchies{}.make("job-1a2b3c4d", 1000, 1000)
	if want := "cgroup: make job-1a2b3c4d: no cgroup file system is mounted that shows the cgroup of this process"; err == nil || err.Error() != want {
		t.Errorf("error %v; expected %s", err, want)
	}
}
