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

// Program is a process of a contestant, with the processes of its group.
type Program struct {
	*exec.Cmd
	launch func() error
	ctx    context.Context // the program is killed when it ends
	stderr bytes.Buffer
	ended  chan struct{} // closed when it has ended; err is then the result
	err    error
}

func newProgram(ctx context.Context, cmd *exec.Cmd, launch func() error) *Program {
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = time.Second // for children that hold its output
	p := &Program{Cmd: cmd, launch: launch, ctx: ctx, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	return p
}

// Start starts the program. The program is killed when its context ends. Start uses a thread
// that lives as long as the program, since Linux takes the end of that thread for the end of the
// parent.
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
		case <-p.ended: // its number may be another process's by now
		default:
			p.Kill()
		}
	})
	return nil
}

// Kill kills the program and its group, and does not wait.
func (p *Program) Kill() {
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // it may have ended
}

// End kills the program and waits until it has ended. It ignores the program's error.
func (p *Program) End() {
	p.Kill()
	<-p.ended
}

// Ended returns a channel that is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Output runs the program to its end and returns its output.
func (p *Program) Output() (string, error) {
	var out bytes.Buffer
	p.Stdout = &out
	if err := p.Start(); err != nil {
		return "", err
	}
	<-p.ended
	return out.String(), p.Failure()
}

// StartServer starts the program, and returns its first line of output when it comes. It
// discards later output.
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

// Failure returns the error of a program that has ended, in the program's own words. It returns
// nil if there was no error, or if the program still runs.
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
