package stream

import (
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/weftnet/weft"
)

// netError returns err in the form that package net uses for TCP. If err wraps a syscall.Errno,
// netError wraps it in an os.SyscallError.
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

// calls maps an operation to its system call, if the two have different names.
var calls = map[string]string{"dial": "connect", "listen": "bind", "close": "shutdown", "set": "setsockopt"}

// argument returns an error that wraps err and weft.ErrBadArgument. Its text is the text of err.
func argument(err error) error { return badArgument{err} }

type badArgument struct{ error }

func (b badArgument) Unwrap() []error { return []error{weft.ErrBadArgument, b.error} }

// fault is an error of package net or syscall, together with its cause. It implements net.Error.
type fault struct{ kind, cause error }

// because returns an error that wraps kind, an error of package net or syscall, and its cause.
func because(kind, cause error) error { return &fault{kind, cause} }

func (f *fault) Error() string { return f.kind.Error() + ": " + f.cause.Error() }

func (f *fault) Unwrap() []error { return []error{f.kind, f.cause} }

// Timeout reports whether the error is a timeout.
func (f *fault) Timeout() bool {
	e, ok := f.kind.(interface{ Timeout() bool })
	return ok && e.Timeout()
}

// Temporary reports whether the error is a temporary syscall.Errno.
func (f *fault) Temporary() bool {
	e, ok := f.kind.(interface{ Temporary() bool })
	return ok && e.Temporary()
}
