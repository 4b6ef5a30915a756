package proc

// Public makes the *weft.Process of a process half, which only package weft can. It is set when that package is
// initialised, for package sim, whose processes are halves of their own making. leave is called once when the process is
// closed: its NIC has to forget it.
var Public func(half *Process, leave func() error, time Time) any
