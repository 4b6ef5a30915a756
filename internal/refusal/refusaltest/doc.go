// Package refusaltest runs a part of a test in an environment where the system refuses calls:
// under a filter that forbids system calls, or under a limit.
package refusaltest
