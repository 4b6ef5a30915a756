package ranks

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program runs one of the programs that the tests start as ranks.
func program(name string, args []string) {
	switch name {
	case "exit":
		os.Exit(number(args[0]))
	case "follow":
		follow()
	case "environment":
		environment()
	case "say":
		fmt.Print(args[0])
		fmt.Fprint(os.Stderr, args[1])
	case "signal": // itself, after a last line
		fmt.Println("the last line")
		fmt.Print("and half a line")
		limitCore()
		die(syscall.Signal(number(args[0])))
	case "sleep":
		fmt.Println("ready")
		hang()
	case "headless":
		headless()
	case "deaf":
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGTSTP)
		fmt.Println("ready")
		hang()
	case "catch":
		catch()
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin)
		fmt.Println("EOF")
	case "askbyte":
		askByte(args)
	case "pieces":
		for _, p := range args {
			fmt.Print(p)
			time.Sleep(time.Millisecond)
		}
		hang()
	case "long":
		fmt.Println(strings.Repeat("y", number(args[0])))
	case "closein":
		_ = os.Stdin.Close()
		fmt.Println("ready")
		hang()
	case "lines":
		writeLines(args[0], number(args[1]))
	case "escape":
		escape()
	case "escaped":
		fmt.Println("escaped", os.Getpid(), unix.Getpgrp(), len(os.Environ()))
		signal.Ignore(unix.SIGTERM, unix.SIGHUP)
		hang()
	case "leaver": // ends, and leaves a process that keeps its stdout
		leave(args)
	case "chatty":
		for {
			fmt.Println("still here")
			time.Sleep(time.Millisecond)
		}
	case "bomb":
		bomb(number(args[0]))
	case "eat":
		_, _ = io.Copy(io.Discard, os.Stdin)
		eat(number(os.Getenv("MEBIBYTES")))
	case "keeper":
		keeper(args)
	default:
		fmt.Fprintln(os.Stderr, "unknown program", name)
		os.Exit(99)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// follow writes its pid, waits for the death of the process whose pid the file BEFORE holds, and
// exits with status 1. Without BEFORE, it waits for SIGUSR1.
func follow() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGUSR1)
	if err := os.WriteFile(os.Getenv("SELF"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	before := os.Getenv("BEFORE")
	fd := -1
	for before != "" && fd < 0 {
		b, _ := os.ReadFile(before)
		pid, _ := strconv.Atoi(string(b))
		fd, _ = unix.PidfdOpen(pid, 0)
	}
	fmt.Println("ready")
	<-c
	for p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}; fd >= 0; {
		if n, err := unix.Poll(p, -1); n > 0 && err == nil {
			break
		}
	}
	os.Exit(1)
}

// limitCore keeps a crash from writing a core file.
func limitCore() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// die ends the process by a signal. Go's runtime handles some signals itself, so a shell takes
// over.
func die(sig syscall.Signal) {
	script := fmt.Sprintf("kill -%d $$", int(sig))
	panic(syscall.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ()))
}

// catch prints the signals that arrive.
func catch() {
	c := make(chan os.Signal, 16)
	signal.Notify(c, unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	fmt.Println("ready")
	for sig := range c {
		fmt.Println("got", unix.SignalName(sig.(syscall.Signal)))
		if sig == unix.SIGTERM {
			os.Exit(0)
		}
	}
}

// environment prints the directory, group, files and variables of a rank.
func environment() {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	fmt.Printf("CWD=%s\nGROUP=%d\nFILES=%s\n%s\n", dir, unix.Getpgrp(), inherited(), strings.Join(os.Environ(), "\n"))
	_, _ = os.NewFile(pmiFD, "PMI").WriteString("cmd=init")
}

// inherited lists the descriptors that exec has left open.
func inherited() string {
	var fds []string
	for fd := range 100 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, strconv.Itoa(fd))
		}
	}
	return strings.Join(fds, " ")
}

// askByte reads one byte whenever SIGUSR1 arrives.
func askByte(args []string) {
	if len(args) > 0 {
		if _, err := unix.FcntlInt(0, unix.F_SETPIPE_SZ, 1<<16); err != nil {
			panic(err)
		}
	}
	c := make(chan os.Signal, 16)
	signal.Notify(c, unix.SIGUSR1)
	fmt.Println("ready")
	b := make([]byte, 1)
	for range c {
		n, err := os.Stdin.Read(b)
		fmt.Printf("read %q %v\n", b[:n], err)
	}
}

// writeLines writes numbered lines of many lengths, in writes that do not end at newlines.
func writeLines(tag string, n int) {
	w := bufio.NewWriterSize(os.Stdout, 5000)
	for i := range n {
		_, _ = w.WriteString(line(tag, i))
	}
	_ = w.Flush()
}

// line is the line that writeLines writes at position i.
func line(tag string, i int) string {
	return tag + " " + strconv.Itoa(i) + " " + strings.Repeat("x", i%61) + "\n"
}

// self starts a program of this binary with nothing in its environment.
func self(attr *syscall.SysProcAttr, name string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", append([]string{"program:" + name}, args...)...)
	c.Stdout, c.Stderr, c.Env, c.SysProcAttr = os.Stdout, os.Stderr, []string{}, attr
	if err := c.Start(); err != nil {
		panic(err)
	}
	return c
}

// escape starts a process that nothing connects with the job: its own session, no environment, and
// a parent that ends.
func escape() {
	self(&syscall.SysProcAttr{Setsid: true}, "leaver", "escaped")
	fmt.Println("ready")
	hang()
}

func leave(args []string) { self(&syscall.SysProcAttr{Setsid: true}, args[0], args[1:]...) }

// bomb starts n processes, and each of these a process in a session of its own.
func bomb(n int) {
	for range n {
		c := exec.Command("/bin/sh", "-c", `trap "" TERM; sleep 1000 & setsid sleep 1000 & wait`)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	fmt.Println("ready")
	hang()
}

// eat uses memory until something ends it.
func eat(mebibytes int) {
	var all [][]byte
	for range mebibytes {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	fmt.Println("ate", len(all))
	hang()
}

func init() {
	if len(os.Args) > 1 && os.Args[1] == "program:headless" {
		runtime.LockOSThread() // main runs on the first thread then
	}
}

// headless ends the first thread of the process, and runs on in another one.
func headless() {
	signal.Ignore(unix.SIGTERM)
	go func() {
		for {
			if p, ok := readProcess(os.Getpid()); ok && p.State == 'Z' {
				break
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Println("ready")
		hang()
	}()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// hang never returns. Go's runtime would end a program whose goroutines are all blocked.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}
