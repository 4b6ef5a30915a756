package stream

import (
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/weftnet/weft"
)

// netError is an error as package net tells of it over TCP: what has a number of the kernel's is a failure of a system call.
func netError(op string, source, addr net.Addr, err error) error {
	if errors.As(err, new(syscall.Errno)) {
		call := op
		if name, ok := calls[op]; ok {
			call = name
		}
		err = os.NewSyscallError(call, err)
	}
	return &net.OpError{Op: op, Net: Addr{}.Network(), Source: source, Addr: addr, Err: err}
}

// calls are the system calls of operations that are not called as these are.
var calls = map[string]string{"dial": "connect", "listen": "bind", "close": "shutdown", "set": "setsockopt"}

// argument returns err as an error that also is weft.ErrBadArgument. The text stays that of err.
func argument(err error) error { return badArgument{err} }

type badArgument struct{ error }

func (b badArgument) Unwrap() []error { return []error{weft.ErrBadArgument, b.error} }

// fault is an error in the words of package net or syscall, and what is behind it. It is a net.Error.
type fault struct{ as, why error }

// because is the error as, which why has brought about.
func because(as, why error) error { return &fault{as, why} }

func (f *fault) Error() string { return f.as.Error() + ": " + f.why.Error() }

func (f *fault) Unwrap() []error { return []error{f.as, f.why} }

// Timeout reports whether the time that something might take has passed.
func (f *fault) Timeout() bool {
	e, ok := f.as.(interface{ Timeout() bool })
	return ok && e.Timeout()
}

// Temporary is as a syscall.Errno has it.
func (f *fault) Temporary() bool {
	e, ok := f.as.(interface{ Temporary() bool })
	return ok && e.Temporary()
}
