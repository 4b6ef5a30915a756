package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// leafDir is the cgroup of version 2 into which a daemon moves itself. The kernel gives a
// controller to the children of a cgroup only if no process is in the cgroup itself.
//
//	before: …/weft.service (daemon)     after: …/weft.service
//	                                           ├── weft-nic (daemon)
//	                                           └── job-1a2b3c4d …
const leafDir = "weft-nic"

// enable makes a controller of version 2 available below dir. If this process alone is in dir, it
// moves into a leaf first.
func enable(dir, controller string) error {
	control := filepath.Join(dir, "cgroup.subtree_control")
	err := write(control, "+"+controller)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if merr := moveToLeaf(dir); merr != nil {
		return merr
	}
	return write(control, "+"+controller)
}

// moveToLeaf moves this process into a leaf of dir if dir has no other process. Weft must not
// move the processes of other programs.
func moveToLeaf(dir string) error {
	pids, err := pidsIn(dir)
	if err != nil {
		return err
	}
	if !slices.Equal(pids, []int{os.Getpid()}) {
		return unix.EBUSY
	}
	leaf := filepath.Join(dir, leafDir)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

// aboveLeaf returns the cgroup below which jobs belong: the parent of dir if dir is a leaf,
// otherwise dir.
func aboveLeaf(dir string) string {
	if filepath.Base(dir) == leafDir {
		return filepath.Dir(dir)
	}
	return dir
}
