//go:build !unix

package pmi

import (
	"errors"
	"net"
)

// takeOver fails: Weft does not support this system. If this package compiles, internal/target
// reports that with a single error.
func takeOver(int) (net.Conn, error) { return nil, errors.ErrUnsupported }
