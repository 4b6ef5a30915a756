//go:build !linux

package limit

import (
	"context"
	"fmt"
	"io"
	"time"
)

// All lists the limits: there are none here.
func All() []Limit { return nil }

// Ground is where limits are measured. There is none here.
type Ground struct{}

// NewGround says that there is none.
func NewGround(string, int, bool) (*Ground, error) {
	return nil, fmt.Errorf("%w: needs Linux", ErrUnavailable)
}

// Close does nothing.
func (g *Ground) Close() error { return nil }

// Measure says that nothing can be measured.
func (g *Ground) Measure(context.Context, string, int, time.Duration) (Result, error) {
	return Result{}, fmt.Errorf("%w: needs Linux", ErrUnavailable)
}

// RunChild says that there is nothing to be a part of.
func RunChild(string, io.Reader, io.Writer) error {
	return fmt.Errorf("%w: needs Linux", ErrUnavailable)
}
