//go:build !unix

package pmi

import (
	"errors"
	"net"
)

// takeOver fails: Weft does not support this system, and says so by one error (internal/target) if this
// package compiles.
func takeOver(int) (net.Conn, error) { return nil, errors.ErrUnsupported }
