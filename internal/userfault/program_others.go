//go:build !linux

package userfault

import (
	"context"
	"errors"
)

// Attach asks the pager at a socket for memory.
func Attach(context.Context, string) (*Mapping, error) {
	return nil, errors.New("memory that another process pages needs Linux's userfaultfd")
}
