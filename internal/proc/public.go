package proc

// Public makes the *weft.Process of a process half, which only package weft can do. That package
// sets Public when it is initialised. Package sim uses it, since it creates its own process
// halves. leave is called once when the process is closed, because its NIC has to forget it.
var Public func(half *Process, leave func() error, time Time) any
