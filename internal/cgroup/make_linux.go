package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// groupName matches the names that Make accepts. No file of a controller has such a name.
var groupName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\.[0-9]+)?$`)
})

// files lists the files of the ranks' directory that the keeper writes.
var files = []string{
	"cgroup.procs", "cgroup.kill", "tasks", "freezer.state", "pids.max", "memory.max", "memory.swap.max",
	"memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
}

// Make makes the control group of a job below the cgroup of this process, and gives it to the
// user uid and the group gid. It uses every hierarchy in which it can make a directory. If there
// is none, Make returns an error that wraps the reasons, such as fs.ErrPermission. The name is a
// job's application, such as "job-1a2b3c4d.1".
func Make(name string, uid, gid int) (*Group, error) {
	if !groupName().MatchString(name) {
		return nil, fmt.Errorf("cgroup: name %.80q; expected letters, digits, '-' and '_'", name)
	}
	h, err := own()
	if err != nil {
		return nil, err
	}
	return h.make(name, uid, gid)
}

// make is like Make, but uses the given hierarchies.
func (h hierarchies) make(name string, uid, gid int) (*Group, error) {
	g := new(Group)
	var errs []error
	made := make(map[string]bool) // several controllers may share a hierarchy
	for _, one := range []struct {
		controller string
		field      *string
	}{{"", &g.Unified}, {"memory", &g.Memory}, {"pids", &g.Pids}, {"freezer", &g.Freezer}} {
		controller, field := one.controller, one.field
		base := h[controller]
		if base == "" || controller == "freezer" && g.Unified != "" {
			continue // cgroup.kill ends processes without the freezer
		}
		if controller == "" {
			base = aboveLeaf(base)
		}
		dir := filepath.Join(base, name)
		if !made[dir] {
			err := makeDir(base, dir, controller == "", uid, gid)
			// The group belongs to another job, which may have fewer hierarchies.
			if controller == "" && errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("cgroup: make %s: %w", name, err)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			made[dir] = true
		}
		*field = dir
	}
	if len(g.Paths()) == 0 {
		if len(errs) == 0 {
			errs = append(errs, errors.New("no cgroup file system is mounted that shows the cgroup of this process"))
		}
		return nil, fmt.Errorf("cgroup: make %s: %w", name, errors.Join(errs...))
	}
	return g, nil
}

// makeDir makes a job's directory in one hierarchy. If it fails, it leaves nothing.
func makeDir(base, dir string, unified bool, uid, gid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	err := fillDir(base, dir, unified, uid, gid)
	if err != nil {
		err = errors.Join(err, removeDirs(dir))
	}
	return err
}

func fillDir(base, dir string, unified bool, uid, gid int) error {
	if unified {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
			return fmt.Errorf("%s: the kernel has no cgroup.kill; expected Linux 5.14: %w", dir, err)
		}
		// A keeper can leave this process's cgroup only if this process may write its list.
		if err := unix.Access(filepath.Join(base, "cgroup.procs"), unix.W_OK); err != nil {
			return fmt.Errorf("%s/cgroup.procs: %w", base, err)
		}
		// Without the controllers, the group can end processes but cannot limit them. LimitMemory
		// and LimitProcesses then return an error.
		for _, c := range []string{"memory", "pids"} {
			if enable(base, c) == nil {
				_ = enable(dir, c)
			}
		}
	}
	for _, part := range []string{ranksDir, keeperDir} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o755); err != nil {
			return err
		}
	}
	owned := []string{
		filepath.Join(dir, "cgroup.procs"),
		filepath.Join(dir, keeperDir, "cgroup.procs"), filepath.Join(dir, keeperDir, "tasks"),
	}
	for _, f := range files {
		owned = append(owned, filepath.Join(dir, ranksDir, f))
	}
	for _, f := range owned {
		if err := os.Chown(f, uid, gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Open returns the group with the given directories, as Paths has returned them. Open identifies
// the hierarchies by their files.
func Open(paths ...string) (*Group, error) {
	g := new(Group)
	for _, p := range paths {
		if !has(p, "cgroup.procs") {
			return nil, fmt.Errorf("cgroup: %s has no ranks/cgroup.procs; expected the cgroup of a job", p)
		}
		if has(p, "cgroup.kill") { // version 2 may also have pids.max
			g.Unified = p
			continue
		}
		for file, field := range map[string]*string{
			"memory.limit_in_bytes": &g.Memory, "pids.max": &g.Pids, "freezer.state": &g.Freezer,
		} {
			if has(p, file) {
				*field = p
			}
		}
	}
	if len(paths) == 0 {
		return nil, errors.New("cgroup: no directory; expected one at least")
	}
	return g, nil
}

func has(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, ranksDir, file))
	return err == nil
}

// removeDirs removes a job's directory of one hierarchy, and the directories that ranks have made
// inside. The directories hold no processes.
func removeDirs(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return forgiveAbsence(err)
	})
	errs := []error{err}
	for _, d := range slices.Backward(dirs) {
		errs = append(errs, forgiveAbsence(os.Remove(d)))
	}
	return errors.Join(errs...)
}

func forgiveAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write writes a control file. It never creates the file.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// read reads a control file and trims the surrounding space.
func read(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimSpace(string(b)), err
}
