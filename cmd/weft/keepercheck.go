package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
)

// check lists the reasons why the ranks cannot run on this host, and opens the job's control
// group.
func (k *rankStarter) check() []ctl.Refusal {
	r := k.begin.Reserve
	all := checkReserve(r)
	var err error
	if k.group, err = openGroup(k.begin.Cgroup, k.begin.NoCgroup, r.MemoryBytes); err != nil {
		why := strings.TrimPrefix(err.Error(), "cgroup: ")
		text, cure := "control group of the job: "+why, "see the log of the daemon"
		if r.MemoryBytes > 0 {
			text, cure = "no limit of memory can be set: "+why, memoryCure(k.begin.Root)
		}
		all = append(all, ctl.Refusal{What: ctl.RefusedMemory, Text: text, Cure: cure})
	}
	return all
}

// memoryCure returns advice on how a host can limit memory. The advice depends on the daemon's
// user.
func memoryCure(root bool) string {
	if root {
		return "give the daemon a cgroup file system with the memory controller that it may write, " +
			"or leave --memory out"
	}
	return "run the daemon of this host as root, or leave --memory out"
}

// checkReserve lists the reasons why this user's ranks cannot run on this host: its directory
// and its program.
func checkReserve(r *ctl.Reserve) (all []ctl.Refusal) {
	if err := checkDir(r.Dir); err != nil {
		all = append(all, ctl.Refusal{What: ctl.RefusedDir, Text: fmt.Sprintf("working directory %s: %v", r.Dir, err),
			Cure: "make it on this host, or name another by --cwd"})
	}
	if r.Staged {
		return all
	}
	if no := checkProgram(r.Program, r.SHA256); no != nil {
		all = append(all, *no)
	}
	return all
}

// checkDir returns an error if a user cannot work in a directory.
func checkDir(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is none")
	case err != nil:
		return errors.Unwrap(err)
	case !st.IsDir():
		return errors.New("it is a file")
	}
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return fmt.Errorf("user %d may not enter it: %w", os.Getuid(), err)
	}
	return nil
}

// checkProgram returns a refusal if a program cannot run here, or differs from the launcher's.
func checkProgram(path, hash string) *ctl.Refusal {
	no := func(cure, format string, args ...any) *ctl.Refusal {
		return &ctl.Refusal{What: ctl.RefusedProgram, Text: "program " + path + " " + fmt.Sprintf(format, args...),
			Cure: cure}
	}
	const install = "install it at this path on this host"
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return no(install, "is missing")
	case err != nil:
		return no(install, "cannot be looked at: %v", errors.Unwrap(err))
	case !st.Mode().IsRegular():
		return no(install, "is no regular file")
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return no("let the user execute it", "may not be executed by user %d: %v", os.Getuid(), err)
	}
	if hash == "" {
		return nil
	}
	own, err := fileHash(path)
	switch {
	case err != nil:
		return no("let the user read it", "cannot be read: %v", err)
	case own != "" && own != hash:
		return no("install the same file on all hosts of the job",
			"differs from the launcher's: sha256 %.12s… here, %.12s… there", own, hash)
	}
	return nil
}
