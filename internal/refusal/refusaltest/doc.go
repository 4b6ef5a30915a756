// Package refusaltest runs a part of a test where the system refuses: under a filter that forbids
// system calls, or under a limit.
package refusaltest
