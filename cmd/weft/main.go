//go:debug netdns=go

// Command weft is the one binary of Weft: the NIC daemon and every tool around it.
//
//	weft SUBCOMMAND [flags] [arguments]
//
// It exits 0 when all went well, 2 when it was called wrongly (an unknown subcommand or flag, a value that is not what
// the flag takes), and 1 when the work itself failed. Some subcommands pass on the exit status of what they ran.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

func main() {
	// The first SIGINT, SIGTERM or SIGHUP cancels the context and so asks for an orderly end; the next SIGINT or SIGTERM kills. The next SIGHUP does not:
	// of one terminal that has gone both the shell and the kernel may tell.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if hangsUp() {
		var end func()
		ctx, end = context.WithCancel(ctx)
		heedHangUps(end)
	}
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// hangsUp reports whether SIGHUP ends a command: not one that is to ignore it, as by nohup.
func hangsUp() bool { return !signal.Ignored(syscall.SIGHUP) }

// onHangUp is what a command does when SIGHUP comes. If it is nil, the command ends.
var onHangUp atomic.Pointer[func()]

// heedHangUps has SIGHUP call end unless the command goes on. The handler stays the same
// all the time: another one, or none for a moment, would be inherited by programs that start then.
func heedHangUps(end func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		for range hup {
			if goOn := onHangUp.Load(); goOn != nil {
				(*goOn)()
			} else {
				end()
			}
		}
	}()
}

// staysUp lets a command without a terminal go on when SIGHUP comes, and calls hint for the first one. The
// command that has a terminal ends with it.
func staysUp(hint func()) {
	if terminal, err := os.Open("/dev/tty"); err == nil {
		terminal.Close()
		return
	}
	goOn := sync.OnceFunc(hint)
	onHangUp.Store(&goOn)
}

// outlivesReaders has a command go on when nothing reads any more what it prints, as behind head: others use it. What it runs is ended by that as ever.
func outlivesReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
