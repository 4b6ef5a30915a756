//go:build !linux

package cgroup

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

func unsupported() error {
	return fmt.Errorf("cgroup: %s has no control groups; expected Linux: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Make fails.
func Make(string, int, int) (*Group, error) { return nil, unsupported() }

// Open fails.
func Open(...string) (*Group, error) { return nil, unsupported() }

// Enter fails.
func (*Group) Enter(*syscall.SysProcAttr) (func(), error) { return nil, unsupported() }

// EnterKeeper fails.
func (*Group) EnterKeeper(*syscall.SysProcAttr) (func(), error) { return nil, unsupported() }

// LimitMemory fails.
func (*Group) LimitMemory(int64) error { return unsupported() }

// LimitProcesses fails.
func (*Group) LimitProcesses(int64) error { return unsupported() }

// OOM fails.
func (*Group) OOM() (OOM, error) { return OOM{}, unsupported() }

// Enclosing fails.
func Enclosing() (OOM, error) { return OOM{}, unsupported() }

// MemoryRoom fails.
func MemoryRoom() (Room, bool, error) { return Room{}, false, unsupported() }

// Processes fails.
func (*Group) Processes() ([]int, error) { return nil, unsupported() }

// Kill fails.
func (*Group) Kill(time.Duration) ([]int, error) { return nil, unsupported() }

// Remove fails.
func (*Group) Remove(time.Duration) ([]int, error) { return nil, unsupported() }

// Leave fails.
func (*Group) Leave() error { return unsupported() }

// Sweep fails.
func Sweep(string, time.Duration) ([]string, error) { return nil, unsupported() }
