package proc

// Public makes the *weft.Process of a process half, which only package weft can. It is set when that package is
// initialised, for package sim, whose processes are halves of their own making.
var Public func(*Process) any
