package ground

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Program is a process of a contestant, and the processes of its group.
type Program struct {
	*exec.Cmd
	launch func() error
	ctx    context.Context // its end is the program's
	stderr bytes.Buffer
	ended  chan struct{} // closed when it has ended; then err is how
	err    error
}

func newProgram(ctx context.Context, cmd *exec.Cmd, launch func() error) *Program {
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = time.Second // for what it has started and what holds its output
	p := &Program{Cmd: cmd, launch: launch, ctx: ctx, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	return p
}

// Start starts the program. It is killed when its context ends. It is started by a thread that lives as long as it does,
// since Linux takes the end of that thread for the end of the parent.
func (p *Program) Start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.launch()
		started <- err
		if err == nil {
			p.err = p.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(p.Path), err)
	}
	context.AfterFunc(p.ctx, func() {
		select {
		case <-p.ended: // its number may be another's by now
		default:
			p.Kill()
		}
	})
	return nil
}

// Kill ends the program and its group, and does not wait for it.
func (p *Program) Kill() {
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // it may have ended
}

// End kills the program and waits until it is gone. How it ended no longer matters.
func (p *Program) End() {
	p.Kill()
	<-p.ended
}

// Ended is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Output runs the program to its end and returns what it printed.
func (p *Program) Output() (string, error) {
	var out bytes.Buffer
	p.Stdout = &out
	if err := p.Start(); err != nil {
		return "", err
	}
	<-p.ended
	return out.String(), p.Failure()
}

// StartServer starts the program, and returns the first line that it prints, once it does. What it prints later is thrown away.
func (p *Program) StartServer() (line string, err error) {
	out, err := p.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := p.Start(); err != nil {
		return "", err
	}
	r := bufio.NewReader(out)
	if line, err = r.ReadString('\n'); err != nil {
		p.End()
		return "", errors.Join(fmt.Errorf("%s said nothing: %w", filepath.Base(p.Path), err), p.Failure())
	}
	go io.Copy(io.Discard, r)
	return strings.TrimSpace(line), nil
}

// Failure says how a program that has ended did so, in its own words; nil if all was well, or it goes on.
func (p *Program) Failure() error {
	select {
	case <-p.ended:
	default:
		return nil
	}
	if p.err == nil {
		return nil
	}
	if cause := context.Cause(p.ctx); cause != nil {
		return fmt.Errorf("%s: %w", filepath.Base(p.Path), cause)
	}
	words := strings.TrimSpace(p.stderr.String())
	if len(words) > 600 {
		words = "… " + words[len(words)-600:]
	}
	return fmt.Errorf("%s: %w: %s", filepath.Base(p.Path), p.err, words)
}
