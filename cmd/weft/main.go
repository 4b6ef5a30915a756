//go:debug netdns=go

// Command weft is the one binary of Weft: the NIC daemon and every tool around it.
//
//	weft SUBCOMMAND [flags] [arguments]
//
// It exits 0 if all went well, and 2 if the command line was wrong: an unknown subcommand or
// flag, or a value that the flag does not take. It exits 1 if the work itself failed. Some
// subcommands pass on the exit status of the program that they ran.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

func main() {
	// The first SIGINT, SIGTERM or SIGHUP cancels the context and so asks for an orderly end.
	// The next SIGINT or SIGTERM kills. The next SIGHUP does not: when a terminal is gone, both
	// the shell and the kernel may send one.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if hangsUp() {
		var end func()
		ctx, end = context.WithCancel(ctx)
		heedHangUps(end)
	}
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// hangsUp reports whether SIGHUP ends a command. It does not if the signal is ignored, as under
// nohup.
func hangsUp() bool { return !signal.Ignored(syscall.SIGHUP) }

// onHangUp is called when SIGHUP comes. If it is nil or returns false, the command ends.
var onHangUp atomic.Pointer[func() (goesOn bool)]

// heedHangUps calls end on SIGHUP unless the command goes on. The handler stays the same all the
// time. Programs that start during a change would inherit another handler, or none.
func heedHangUps(end func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		for range hup {
			if heed := onHangUp.Load(); heed == nil || !(*heed)() {
				end()
			}
		}
	}()
}

// reloadsOnHangUp makes SIGHUP call reload. If the terminal of the command is gone, SIGHUP ends the
// command instead.
func reloadsOnHangUp(reload func()) {
	began := atTerminal()
	heed := func() bool {
		if began && !atTerminal() {
			return false
		}
		reload()
		return true
	}
	onHangUp.Store(&heed)
}

// atTerminal reports whether this process has a controlling terminal. If a
// terminal hangs up, the kernel removes it from the process before it sends SIGHUP.
func atTerminal() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = terminal.Close()
	return true
}

// outlivesReaders lets a command go on when no process reads its output any more, as after head:
// others use the command. The programs that it runs still end by SIGPIPE.
func outlivesReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
