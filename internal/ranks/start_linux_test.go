package ranks

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestARankHasItsEnvironmentDirectoryAndGroup(t *testing.T) {
	r := newRecorder(t)
	c := r.config(3, argv("environment")...)
	c.Env = append(c.Env, "COMMON=same", "RANK=common", "PMI_FD=9")
	c.EnvOf = func(rank int) []string { return []string{"RANK=" + itoa(rank)} }
	var ends []*os.File
	c.PMI = func(rank int) (*os.File, error) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		ends = append(ends, os.NewFile(uintptr(pair[0]), "keeper's end"))
		return os.NewFile(uintptr(pair[1]), "rank's end"), nil
	}
	s := r.start(c)
	s.Wait()
	for i := range 3 {
		env := r.text(i, Stdout)
		for name, want := range map[string]string{"COMMON": "same", "RANK": itoa(i), "PMI_FD": "3", "CWD": c.Dir} {
			if got := variable(env, name); got != want {
				t.Errorf("rank %d has %s=%s; expected %s", i, name, got, want)
			}
		}
		if got, want := variable(env, "GROUP"), itoa(s.PIDs()[i]); got != want {
			t.Errorf("rank %d is in group %s; expected its own, %s", i, got, want)
		}
		if got := variable(env, "FILES"); got != "0 1 2 3" {
			t.Errorf("rank %d has the files %s; expected 0 to 3", i, got)
		}
		b := make([]byte, 10)
		if n, err := ends[i].Read(b); err != nil || string(b[:n]) != "cmd=init" {
			t.Errorf("rank %d wrote %q (%v) to its PMI connection", i, b[:n], err)
		}
		if err := ends[i].Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAProgramIsFoundInThePathOfItsEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(argv("")[0], filepath.Join(dir, "my-rank")); err != nil {
		t.Fatal(err)
	}
	r := newRecorder(t)
	c := r.config(1, "my-rank", "program:exit", "7")
	c.Env = append(c.Env, "PATH=/nowhere:"+dir)
	r.start(c).Wait()
	if e := r.exit(0); e.Status != 7 {
		t.Errorf("the rank ended with %+v; expected status 7", e)
	}
}

func TestStartStartsAllRanksOrNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("no PMI today")
	for _, c := range []struct {
		name string
		edit func(*Config)
		want string
		is   error
	}{
		{"no program", func(c *Config) { c.Argv = nil }, "expected its path", nil},
		{"no rank", func(c *Config) { c.Ranks = nil }, "expected one at least", nil},
		{"a rank twice", func(c *Config) { c.Ranks = []int{2, 1, 2} }, "rank 2; expected numbers", nil},
		{"a negative rank", func(c *Config) { c.Ranks = []int{-1} }, "rank -1", nil},
		{"no output", func(c *Config) { c.Output = nil }, "no Output", nil},
		{"stdin without Want", func(c *Config) {
			c.Stdin, c.Want = map[int]bool{0: true}, nil
		}, "stdin without Want", nil},
		{"a missing program", func(c *Config) {
			c.Program = "/no/such/program"
		}, "rank 0: start /no/such/program: no such file", fs.ErrNotExist},
		{"a file that is no program", func(c *Config) {
			c.Program = "./data"
		}, "rank 0: start ./data: permission denied", fs.ErrPermission},
		{"a missing directory", func(c *Config) {
			c.Dir = "/no/such/dir"
		}, "rank 0: directory /no/such/dir: no such file", fs.ErrNotExist},
		{"a program outside PATH", func(c *Config) {
			c.Program, c.Env = "weft-rank", []string{"PATH=/nowhere"}
		}, `not in PATH "/nowhere"`, nil},
		{"no PATH", func(c *Config) { c.Program, c.Env = "weft-rank", nil }, "has no PATH", nil},
		{"a failing last rank", func(c *Config) {
			c.PMI = func(rank int) (*os.File, error) {
				if rank == 2 {
					return nil, wrong
				}
				return os.Open(os.DevNull)
			}
		}, "rank 2: PMI: no PMI today", wrong},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecorder(t)
			cfg := r.config(3, argv("deaf")...)
			cfg.Dir = dir
			c.edit(&cfg)
			files := openFiles(t)
			s, err := Start(cfg)
			if err == nil {
				end(t, s)
				t.Fatal("Start succeeds")
			}
			if !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("Start fails with %q; expected %q", err, c.want)
			}
			if left := descendants(os.Getpid()); len(left) > 0 {
				t.Errorf("ranks are left: %+v", left)
			}
			if len(r.exits) > 0 {
				t.Errorf("ends were reported: %+v", r.exits)
			}
			if now := openFiles(t); now != files {
				t.Errorf("%d files are open; expected %d as before", now, files)
			}
		})
	}
}

func TestAProcessHasOneJobAtOnce(t *testing.T) {
	r := newRecorder(t)
	s := r.start(r.config(1, argv("sleep")...))
	r.awaitText(0, "ready")
	if _, err := Start(r.config(1, argv("sleep")...)); !errors.Is(err, ErrBusy) {
		t.Errorf("a second Start returns %v; expected %v", err, ErrBusy)
	}
	if left := s.End(0); len(left) > 0 {
		t.Fatalf("processes are left: %+v", left)
	}
	s.Wait()
	r2 := newRecorder(t)
	r2.start(r2.config(1, argv("exit", "0")...)).Wait()
}

func TestAJobLeavesNoFileOpen(t *testing.T) {
	files := openFiles(t)
	for range 3 {
		r := newRecorder(t)
		c := r.config(4, argv("cat")...)
		c.Stdin = map[int]bool{0: true, 1: true}
		s := r.start(c)
		r.await("end of ranks 2 and 3", func() bool { return len(r.exits) >= 2 })
		end(t, s)
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d files are open; expected %d as before", now, files)
	}
}

// openFiles returns how many files this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
