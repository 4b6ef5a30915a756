//go:build !linux

package userfault

import (
	"context"
	"errors"
)

// Attach fails, because paging by another process needs Linux.
func Attach(context.Context, string) (*Mapping, error) {
	return nil, errors.New("memory that another process pages needs Linux's userfaultfd")
}
