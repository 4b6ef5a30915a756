//go:build !linux

package ebpf

import "errors"

// ErrBusy means that a program's data is not available: an activation on another processor takes
// too long.
var ErrBusy = errors.New("the program is busy in the driver")

func (r *Resident) mapState() error { return ErrUnavailable }

func (r *Resident) unmapState() error { return nil }

// Take returns ErrUnavailable, since only Linux has programs in the driver.
func (r *Resident) Take() error { return ErrUnavailable }

// Stopped returns true.
func (r *Resident) Stopped() bool { return true }

// Give does nothing.
func (r *Resident) Give() {}
