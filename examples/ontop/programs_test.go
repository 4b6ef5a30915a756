package ontop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// place is a host on which programs run.
type place struct {
	ip      string // its address
	command func(ctx context.Context, name string, args ...string) (c *exec.Cmd, start func() error)
}

// here is this host.
var here = place{"127.0.0.1", func(ctx context.Context, name string, args ...string) (*exec.Cmd, func() error) {
	c := exec.CommandContext(ctx, name, args...)
	return c, c.Start
}}

// serve runs a program until the test ends. It returns when the program has printed ready.
func (p place) serve(t *testing.T, ready string, as *syscall.Credential, name string, args ...string) {
	t.Helper()
	c, start := p.command(context.Background(), name, args...)
	if as != nil {
		if c.SysProcAttr == nil {
			c.SysProcAttr = new(syscall.SysProcAttr)
		}
		c.SysProcAttr.Credential = as
	}
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	if err := start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	ended := make(chan error, 1)
	go func() { err := c.Wait(); w.Close(); ended <- err }()
	t.Cleanup(func() { stop(t, c, ended) })
	is := make(chan struct{})
	go func() {
		once := sync.OnceFunc(func() { close(is) })
		for s := bufio.NewScanner(r); s.Scan(); {
			if strings.Contains(s.Text(), ready) {
				once()
			}
			if *long || testing.Verbose() {
				fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(name), s.Text())
			}
		}
		_, _ = io.Copy(io.Discard, r) // the rest, if a line is too long
	}()
	select {
	case <-is:
	case err := <-ended:
		ended <- err
		t.Fatalf("%s %s ended with %v before it said %q", name, strings.Join(args, " "), err, ready)
	case <-time.After(patience):
		t.Fatalf("%s %s does not say %q", name, strings.Join(args, " "), ready)
	}
}

// stop interrupts a program, and kills it if it does not end.
func stop(t *testing.T, c *exec.Cmd, ended <-chan error) {
	_ = c.Process.Signal(os.Interrupt)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Errorf("%s does not end by an interrupt", c.Path)
		_ = c.Process.Kill()
		<-ended
	}
}

// run runs a program to its end, and returns what it printed.
func (p place) run(t *testing.T, as *syscall.Credential, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, start := p.command(ctx, name, args...)
	if as != nil {
		if c.SysProcAttr == nil {
			c.SysProcAttr = new(syscall.SysProcAttr)
		}
		c.SysProcAttr.Credential = as
	}
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	err := start()
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		t.Fatalf("%s %s: %v; it printed\n%s%s", name, strings.Join(args, " "), err, &out, &errs)
	}
	return out.String()
}

// build builds the weft command, once.
var build = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "weft-ontop")
	if err != nil {
		return "", err
	}
	built = dir
	c := exec.Command("go", "build", "-o", dir, "./cmd/weft")
	c.Dir = filepath.Join("..", "..")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "weft"), nil
})

var built string // removed when the tests have ended

func TestMain(m *testing.M) {
	status := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(status)
}

// proxy runs `weft proxy`.
func (p place) proxy(t *testing.T, args ...string) {
	t.Helper()
	weft, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p.serve(t, "carries connections", nil, weft, append([]string{"proxy", "--drain", "1s"}, args...)...)
}
