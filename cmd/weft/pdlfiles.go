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

// eachFile calls do for every file, whether or not earlier calls failed, and prints the errors.
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

// mostRead bounds the bytes read of a file. Every source and module is shorter. A device may
// have no end.
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

// readSource reads a source. It refuses a file that begins as a module does.
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

// readModule reads a module, or compiles a source. A file that begins as a module does is a
// module. For a source, it also returns the text.
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

// replaceFile replaces the contents of a writable file, all or none: it writes a new file in the
// same directory, and renames it over the old one. The mode stays.
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
