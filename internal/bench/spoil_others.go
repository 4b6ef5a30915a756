//go:build !linux

package bench

// Spoils says what spoils measurements here, as far as it is known: nothing, but on Linux.
func Spoils() []string { return nil }
