package machine

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Victim runs a rank for the given kind of death. In dir the ranks report that they run, and
// there the file "go" appears when it is time to die.
func Victim(kind, dir string) error {
	rank := os.Getenv("WEFT_RANK")
	if kind == sleeper { // a grandchild, without an environment
		time.Sleep(time.Hour)
		return nil
	}
	signal.Reset() // this command handles signals itself
	if kind == dieDeaf {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if kind == dieForked && rank == "2" {
		if err := fork(dir); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "rank."+rank), []byte(fmt.Sprint(os.Getpid())), 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
			die(kind, rank)
		}
		if rank != "1" && rank != "2" {
			time.Sleep(time.Hour)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// die ends rank 1 in the way of kind. If the kind is dieStopped, rank 2 stops itself first.
func die(kind, rank string) {
	pid := os.Getpid()
	if rank == "2" {
		if kind == dieStopped {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		time.Sleep(time.Hour)
	}
	switch kind {
	case dieKilled:
		_ = syscall.Kill(pid, syscall.SIGKILL)
	case dieFault: // Go's own handler would turn the signal into an exit
		_ = syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -SEGV $$"}, os.Environ())
	case dieStopped:
		time.Sleep(50 * time.Millisecond)
		os.Exit(3)
	case dieExit, dieDeaf, dieForked:
		os.Exit(3)
	}
	time.Sleep(time.Hour)
}

// fork starts a process in its own session, without an environment, whose parent ends.
func fork(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command("/bin/sh", "-c", `"$0" victim `+sleeper+` "$1" >/dev/null 2>&1 </dev/null &`, self, dir)
	c.Env = []string{}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Run()
}

// Speaker runs a rank that prints numbered lines.
func Speaker(lines int) error {
	rank := os.Getenv("WEFT_RANK")
	var b []byte
	for i := range lines {
		b = fmt.Appendf(b, "%s %d %s\n", rank, i, padding[:i%len(padding)])
		if len(b) > 32<<10 {
			if _, err := os.Stdout.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := os.Stdout.Write(b)
	return err
}

// padding gives the lines several lengths.
const padding = "abcdefghijklmnopqrstuvwxyz0123456789"
