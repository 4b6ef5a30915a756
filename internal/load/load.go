// Package load has what tests and measurements load Weft with: payloads that a receiver checks,
// several operations in flight, and functions that run concurrently and succeed or fail as one.
package load
