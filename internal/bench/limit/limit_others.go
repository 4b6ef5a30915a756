//go:build !linux

package limit

import (
	"context"
	"fmt"
	"io"
	"time"
)

// All returns no limits here.
func All() []Limit { return nil }

// Ground is the place where limits are measured. There is none here.
type Ground struct{}

// NewGround returns ErrUnavailable.
func NewGround(string, int, bool) (*Ground, error) {
	return nil, fmt.Errorf("%w: needs Linux", ErrUnavailable)
}

// Close does nothing.
func (g *Ground) Close() error { return nil }

// Measure returns ErrUnavailable.
func (g *Ground) Measure(context.Context, string, int, time.Duration) (Result, error) {
	return Result{}, fmt.Errorf("%w: needs Linux", ErrUnavailable)
}

// RunChild returns ErrUnavailable.
func RunChild(string, io.Reader, io.Writer) error {
	return fmt.Errorf("%w: needs Linux", ErrUnavailable)
}
