//go:build !unix

package target

var _ = weft_does_not_support_this_operating_system___it_needs_Linux_or_macOS
