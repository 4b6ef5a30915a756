package stream

import (
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/weftnet/weft"
)

// netError returns err in the form that package net uses for TCP. An error with a number of the
// kernel becomes the failure of a system call.
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

// argument returns err as an error that also is weft.ErrBadArgument. The text stays that of err.
func argument(err error) error { return badArgument{err} }

type badArgument struct{ error }

func (b badArgument) Unwrap() []error { return []error{weft.ErrBadArgument, b.error} }

// fault is an error of package net or syscall together with its cause. It is a net.Error.
type fault struct{ as, why error }

// because returns the error as with the cause why.
func because(as, why error) error { return &fault{as, why} }

func (f *fault) Error() string { return f.as.Error() + ": " + f.why.Error() }

func (f *fault) Unwrap() []error { return []error{f.as, f.why} }

// Timeout reports whether the error is a timeout.
func (f *fault) Timeout() bool {
	e, ok := f.as.(interface{ Timeout() bool })
	return ok && e.Timeout()
}

// Temporary reports what the Errno reports, if the error is one.
func (f *fault) Temporary() bool {
	e, ok := f.as.(interface{ Temporary() bool })
	return ok && e.Temporary()
}
