//go:build !amd64

package xdp

// fetchAhead is a hint, and there is none here.
func fetchAhead(*desc, *byte) {}
