package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// Leave moves this process out of the group, to the cgroup above it or to the daemon's leaf
// there. If its daemon is gone, a keeper leaves the group before it removes the group. Leave
// needs the daemon's rights in the file system.
func (g *Group) Leave() error {
	pid := strconv.Itoa(os.Getpid())
	var errs []error
	for _, p := range g.Paths() {
		above := filepath.Dir(p)
		err := write(filepath.Join(above, "cgroup.procs"), pid)
		if err != nil && write(filepath.Join(above, leafDir, "cgroup.procs"), pid) == nil {
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
