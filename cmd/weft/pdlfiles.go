package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/prog"
)

// eachFile does with every file what is to be done, whatever came of those before, and prints what is wrong with them.
func eachFile(c *cobra.Command, files []string, do func(file string) error) error {
	failed := false
	for _, file := range files {
		err := do(file)
		if err == nil {
			continue
		}
		failed = true
		if err = show(c, err); err.Error() != "" {
			fmt.Fprintf(c.ErrOrStderr(), "weft: %v\n", err)
		}
	}
	if failed {
		return errorsShown()
	}
	return nil
}

// mostRead is how much of a file is read: more than any source or module has. A device may have no end.
const mostRead = prog.MaxModule

// readLimited reads a file that holds a source or module.
func readLimited(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostRead+1))
	if err == nil && len(b) > mostRead {
		err = fmt.Errorf("%s has more than %d bytes: it is neither a source nor a module", file, mostRead)
	}
	return b, err
}

// readSource reads a source. What begins as a module does is none.
func readSource(file string) ([]byte, error) {
	b, err := readLimited(file)
	if err != nil {
		return nil, err
	}
	switch _, err := prog.Decode(b); {
	case errors.Is(err, prog.ErrNotModule):
		return b, nil
	case err != nil:
		return nil, fmt.Errorf("%s is a module of compiled PDL, not a source: %w", file, err)
	}
	return nil, fmt.Errorf("%s is a module of compiled PDL, not a source; `weft pdl dis` shows it", file)
}

// readModule reads a module, or compiles a source: what begins as a module does is one. source is what it was compiled from,
// if it was.
func readModule(file string) (m *prog.Module, source string, err error) {
	b, err := readLimited(file)
	if err != nil {
		return nil, "", err
	}
	m, err = prog.Decode(b)
	switch {
	case errors.Is(err, prog.ErrNotModule):
		m, err = pdl.Compile(file, b)
		return m, string(b), err
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	if err := m.Verify(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return m, "", nil
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// replaceFile gives a file that can be written to other contents, all of them or none: they are written beside it, and then
// take its place. Its mode stays.
func replaceFile(file string, contents []byte) (err error) {
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return err
	}
	old, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := old.Stat()
	old.Close()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", file)
	}
	beside, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			beside.Close()
			os.Remove(beside.Name())
		}
	}()
	if _, err = beside.Write(contents); err != nil {
		return err
	}
	if err = beside.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	if err = beside.Sync(); err != nil {
		return err
	}
	if err = beside.Close(); err != nil {
		return err
	}
	return os.Rename(beside.Name(), file)
}
