package stream

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
