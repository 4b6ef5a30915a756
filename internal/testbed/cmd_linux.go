package testbed

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// Cmd is a command that runs on a host. It is like an exec.Cmd, except that it must be started by
// the methods of this type. It gets SIGKILL when the testbed is closed or this process ends. To
// set more of SysProcAttr, change its fields and keep Pdeathsig.
type Cmd struct {
	*exec.Cmd
	ns *namespace
}

func newCmd(ctx context.Context, ns *namespace, name string, args ...string) *Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return &Cmd{c, ns}
}

// Start starts the command and does not wait for it. A child is in the namespace of the thread
// that starts it.
func (c *Cmd) Start() error {
	var err error
	if e := c.ns.call(func() { err = c.Cmd.Start() }); e != nil {
		return e
	}
	return err
}

// Run starts the command and waits for it to end.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output. If it fails, the exec.ExitError
// carries its standard error, unless Stderr is set.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("testbed: Stdout already set")
	}
	var stdout, stderr bytes.Buffer
	c.Stdout = &stdout
	if c.Stderr == nil {
		c.Stderr = &stderr
	}
	err := c.Run()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		e.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard error together.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("testbed: Stdout or Stderr already set")
	}
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	return b.Bytes(), err
}
