//go:build !linux

package linktest

import (
	"testing"
	"time"
)

// readable fails the test: only on Linux do drivers have descriptors.
func readable(tb testing.TB, _ int, _ time.Duration) bool {
	tb.Helper()
	tb.Fatal("a descriptor on this system")
	return false
}
