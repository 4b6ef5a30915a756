// Package processtest holds cases that every *weft.Process must pass, however it was made: by
// weft.Open, by weft.Attach, or by package sim. A case is two functions, one for each of two
// processes on two NICs that know each other's names. A function may block only in operations of
// its own process, so the same code runs in virtual time.
package processtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft"
)

// Case is one case.
type Case struct {
	Name string
	A, B Side
}

// Side is the function of one process of a case. The process must not be closed before the other
// side has ended.
type Side func(ctx context.Context, p *weft.Process, other weft.Name) error

// On runs one side of a case on its own process.
func (c Case) On(ctx context.Context, p *weft.Process, other weft.Name, side Side) error {
	if _, err := p.WaitName(ctx, other); err != nil {
		return err
	}
	if err := side(ctx, p, other); err != nil {
		return fmt.Errorf("%s, %v: %w", c.Name, p.Name(), err)
	}
	return nil
}

// Cases lists all cases.
var Cases = slices.Concat(ports, probes, watchers, addresses, shares, calls)

// fill returns message i with n bytes.
func fill(i, n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(i + k*7)
	}
	return b
}

// check compares a received message with message i of n bytes.
func check(m *weft.Message, got []byte, from weft.Name, tag weft.Tag, i, n int) error {
	if m.From != from || m.Tag != tag || m.Full != n || !bytes.Equal(got, fill(i, n)) {
		return fmt.Errorf("%d of %d bytes from %v with tag %d; expected message %d of %d bytes from %v with tag %d, "+
			"as it was sent",
			m.Len, m.Full, m.From, m.Tag, i, n, from, tag)
	}
	return nil
}

// refused returns an error if an operation did not fail with the expected error.
func refused(what string, err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("%s: %v; expected %w", what, err, want)
}
