package cgroup

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// unlimited is less than the number that version 1 writes if there is no limit.
const unlimited = math.MaxInt64 - 1<<20

// MemoryRoom returns the memory that is left in the cgroup of this process or in a cgroup around
// it, whichever is less. It looks at both versions. It reports false if no cgroup limits the
// memory.
func MemoryRoom() (Room, bool, error) {
	h, err := own()
	if err != nil {
		return Room{}, false, err
	}
	return roomOf(h)
}

func roomOf(h hierarchies) (least Room, limited bool, err error) {
	take := func(r Room, is bool, err2 error) {
		err = errors.Join(err, err2)
		if is && (!limited || r.LeftBytes < least.LeftBytes) {
			least, limited = r, true
		}
	}
	if dir := h["memory"]; dir != "" {
		for at := dir; exists(at, "memory.limit_in_bytes"); at = filepath.Dir(at) {
			take(room(at, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"))
		}
		take(inherited(dir))
	}
	if dir := h[""]; dir != "" {
		for at := dir; exists(at, "cgroup.procs"); at = filepath.Dir(at) {
			if exists(at, "memory.max") { // the root has none
				take(room(at, "memory.max", "memory.current", "inactive_file", "active_file"))
			}
		}
	}
	return least, limited, err
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

// room reads the limit and the use of one directory. The kernel drops file pages before it
// refuses memory, so they count as left.
func room(dir, limit, usage, inactive, active string) (Room, bool, error) {
	most, is, err := number(filepath.Join(dir, limit))
	if err != nil || !is {
		return Room{}, false, err
	}
	used, _, err := number(filepath.Join(dir, usage))
	if err != nil {
		return Room{}, false, err
	}
	for _, key := range []string{inactive, active} {
		if n, err := keyed(filepath.Join(dir, "memory.stat"), key); err == nil {
			used -= min(used, int64(min(n, math.MaxInt64)))
		}
	}
	return Room{LimitBytes: most, LeftBytes: max(most-used, 0), File: filepath.Join(dir, limit)}, true, nil
}

// inherited reads the limit of version 1 that a cgroup inherits from the cgroups around it. A
// container may not see these cgroups. Then it does not know how much of that limit is in use.
func inherited(dir string) (Room, bool, error) {
	file := filepath.Join(dir, "memory.stat")
	most, err := keyed(file, "hierarchical_memory_limit")
	if err != nil || most >= unlimited {
		return Room{}, false, nil
	}
	used, _, err := number(filepath.Join(dir, "memory.usage_in_bytes"))
	for _, key := range []string{"total_inactive_file", "total_active_file"} {
		if n, err := keyed(file, key); err == nil {
			used -= min(used, int64(min(n, math.MaxInt64)))
		}
	}
	return Room{LimitBytes: int64(most), LeftBytes: max(int64(most)-used, 0), File: file}, true, err
}

// number reads a file with one number. It reports false if the file says that there is no limit.
func number(file string) (n int64, limited bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false, err
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return 0, false, nil
	}
	if n, err = strconv.ParseInt(word, 10, 64); err != nil {
		return 0, false, err
	}
	return n, n < unlimited, nil
}
