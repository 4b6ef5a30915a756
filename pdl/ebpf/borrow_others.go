//go:build !linux

package ebpf

import "errors"

// ErrBusy is why a program's data could not be had: another processor has been in an activation for too long.
var ErrBusy = errors.New("the program is busy in the driver")

func (r *Resident) mapState() error { return ErrUnavailable }

func (r *Resident) unmapState() error { return nil }

// Take keeps the program from activations in the driver until Give. There is no such program here.
func (r *Resident) Take() error { return ErrUnavailable }

// Stopped reports whether the program takes no more messages.
func (r *Resident) Stopped() bool { return true }

// Give ends what Take has begun.
func (r *Resident) Give() {}
