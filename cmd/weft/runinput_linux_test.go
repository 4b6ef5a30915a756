package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY opens a new terminal and returns its two ends. user is the end that a person types
// into and reads. terminal is the end that a program has.
func openPTY(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return user, terminal
}

// readable returns how many bytes wait in a file.
func readable(t *testing.T, f *os.File) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestATerminalGivesOneLineAtATimeAndKeepsTheRest(t *testing.T) {
	user, terminal := openPTY(t)
	if _, err := io.WriteString(user, "one\ntwo\nthree\n"); err != nil {
		t.Fatal(err)
	}
	in := newRunInput(terminal)
	for _, want := range []string{"one\n", "two\n"} {
		if b, err := in.next(t.Context()); err != nil || string(b) != want {
			t.Fatalf("read %q, %v; expected %q", b, err, want)
		}
	}
	if n := readable(t, terminal); n != len("three\n") {
		t.Errorf("%d bytes are left in the terminal; expected the line that nobody asked for", n)
	}
	if _, err := user.Write([]byte{4}); err != nil { // ^D after the third line
		t.Fatal(err)
	}
	if b, err := in.next(t.Context()); err != nil || string(b) != "three\n" {
		t.Fatalf("read %q, %v", b, err)
	}
	for range 2 {
		if b, err := in.next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("behind the end of the input: %q, %v; expected io.EOF", b, err)
		}
	}
}

func TestAReadThatIsGivenUpTakesNothing(t *testing.T) {
	user, terminal := openPTY(t)
	in := newRunInput(terminal)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := in.next(ctx)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v; expected context.Canceled", err)
	}
	if _, err := io.WriteString(user, "later\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := in.next(t.Context()); err != nil || string(b) != "later\n" {
		t.Errorf("the next read: %q, %v; expected the line that came later", b, err)
	}
}

func TestAFileIsReadInBlocksAndItsOffsetShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcdef", 3*mostInput/32)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := newRunInput(f)
	b, err := in.next(t.Context())
	at, _ := f.Seek(0, io.SeekCurrent)
	if err != nil || len(b) != mostInput || at != mostInput {
		t.Errorf("read %d bytes, %v, the offset is %d; expected %d", len(b), err, at, mostInput)
	}
	rest, err := in.next(t.Context())
	if err != nil || len(rest) != mostInput/2 {
		t.Errorf("then %d bytes, %v; expected %d", len(rest), err, mostInput/2)
	}
	if _, err := in.next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v; expected io.EOF", err)
	}
}

func TestAPipeIsReadOnlyWhenInputIsWanted(t *testing.T) {
	r, w := blockedPipe(t)
	in := newRunInput(r)
	if _, err := w.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	if n := readable(t, r); n != 4096 {
		t.Errorf("%d bytes are in the pipe; expected all, since nobody wants input", n)
	}
	if b, err := in.next(t.Context()); err != nil || len(b) != 4096 {
		t.Errorf("read %d bytes, %v", len(b), err)
	}
	w.Close()
	if _, err := in.next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the writer's end: %v; expected io.EOF", err)
	}
}

// asReader makes the test binary a shell at a terminal, or the job that the shell has in the
// background.
const asReader = "WEFT_TEST_AT_TERMINAL"

func init() {
	switch os.Getenv(asReader) {
	case "shell":
		os.Exit(playShell())
	case "job":
		os.Exit(playJob())
	}
}

// playJob reads one piece of standard input as weft run does, and prints it.
func playJob() int {
	fmt.Println("reads")
	b, err := newRunInput(os.Stdin).next(context.Background())
	fmt.Printf("got %q %v\n", b, err)
	return 0
}

// playShell starts a job in the background. When a byte comes on file descriptor 3, it brings
// the job to the foreground.
func playShell() int {
	signal.Ignore(syscall.SIGTTOU) // as shells do: it gives the terminal to the job
	job := exec.Command(os.Args[0])
	job.Env = append(os.Environ(), asReader+"=job")
	job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the job ends with the thread that forks it
	if err := job.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("job", job.Process.Pid)
	_, _ = os.NewFile(3, "orders").Read(make([]byte, 1))
	if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, job.Process.Pid); err != nil {
		fmt.Println(err)
		return 1
	}
	_ = job.Wait()
	return 0
}

func TestAJobInTheBackgroundReadsNothingAndIsNotStopped(t *testing.T) {
	user, terminal := openPTY(t)
	out, outW := blockedPipe(t)
	orders, ordersW := blockedPipe(t)
	shell := exec.Command(os.Args[0])
	shell.Env = append(os.Environ(), asReader+"=shell")
	shell.Stdin, shell.Stdout, shell.Stderr, shell.ExtraFiles = terminal, outW, os.Stderr, []*os.File{orders}
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	t.Cleanup(func() { _ = shell.Process.Kill(); _ = shell.Wait() }) // the job ends with it
	lines := bufio.NewScanner(out)
	job := 0
	for said := map[string]bool{}; len(said) < 2 && lines.Scan(); said[lines.Text()] = true {
		_, _ = fmt.Sscanf(lines.Text(), "job %d", &job)
	}
	if job == 0 {
		t.Fatal("the job has not started")
	}
	if _, err := io.WriteString(user, "typed\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * lookAtTerminal) // long enough that a job that reads would have read
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", job))
	if n := readable(t, terminal); n != len("typed\n") || err != nil || strings.Contains(string(state), ") T ") {
		t.Errorf("%d bytes wait in the terminal; expected 6, and a job that is not stopped: %s %v", n, state, err)
	}
	if _, err := ordersW.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if want := `got "typed\n" <nil>`; !lines.Scan() || lines.Text() != want {
		t.Errorf("in the foreground the job prints %q; expected %q", lines.Text(), want)
	}
}
