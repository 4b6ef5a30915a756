package bench

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mpiSources are the MPI programs that do the same work.
//
//go:embed mpi/*.c
var mpiSources embed.FS

// mpich compiles and runs MPI programs with MPICH.
type mpich struct {
	missing            string // why it is not available
	compiler, launcher string
	flags              []string          // of the compiler
	dir                string            // of the programs
	programs           map[string]string // by work
}

// newMPICH looks for the compiler and the launcher of MPICH.
func newMPICH(u *undo, flags string) *mpich {
	m := &mpich{programs: map[string]string{}, flags: strings.Fields(flags)}
	m.compiler, m.launcher = anyOf("mpicc.mpich", "mpicc"), anyOf("mpiexec.hydra", "mpiexec.mpich", "mpiexec")
	if m.compiler == "" || m.launcher == "" {
		m.missing = "not measured: mpicc or mpiexec of MPICH is not installed (package mpich)"
		return m
	}
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		m.missing = "not measured: " + err.Error()
		return m
	}
	u.add(func() error { return os.RemoveAll(dir) })
	m.dir = dir
	for _, work := range []string{workStencil, workTranspose} {
		if err := m.compile(work); err != nil {
			m.missing = "not measured: " + err.Error()
			return m
		}
	}
	return m
}

// anyOf returns the path of the first installed program of names, or an empty string.
func anyOf(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// compile makes the program of a work.
func (m *mpich) compile(work string) error {
	name := work + ".c"
	text, err := mpiSources.ReadFile("mpi/" + name)
	if err != nil {
		return err
	}
	source, program := filepath.Join(m.dir, name), filepath.Join(m.dir, work)
	if err := os.WriteFile(source, text, 0o600); err != nil {
		return err
	}
	args := append(slices.Clone(m.flags), "-o", program, source)
	if out, err := exec.Command(m.compiler, args...).CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w: %s", m.compiler, err, first)
	}
	m.programs[work] = program
	return nil
}

// do runs a program on two ranks, each on its own core.
func (m *mpich) do(ctx context.Context, q parallelQuestion) (a parallelAnswer, err error) {
	c := newChild(m.launcher, "-n", "2", "-bind-to", "core", m.programs[q.Work],
		fmt.Sprint(q.Size), fmt.Sprint(q.Warm), fmt.Sprint(q.Count))
	var stdout bytes.Buffer
	c.Stdout = &stdout
	if err := c.start(); err != nil {
		return a, err
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		_ = c.end() // it was called off
		return a, context.Cause(ctx)
	}
	if err := c.failure(); err != nil {
		return a, err
	}
	var took float64
	if _, err := fmt.Sscan(stdout.String(), &took, &a.Check); err != nil {
		return a, fmt.Errorf("%s prints %q: %w", q.Work, stdout.String(), err)
	}
	a.Count = q.Count
	a.Took = int64(took * float64(time.Second))
	a.Whole = a.Took
	return a, nil
}
