//go:build !linux

package poller

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/vni"
)

// Loop runs a daemon's engine. It needs epoll and eventfd, so NewLoop fails on this system.
type Loop struct{}

// LoopConfig holds a Loop's settings other than its engine.
type LoopConfig struct {
	Link  link.Caps
	Awake time.Duration
	Turn  func(now clock.Time)
	Page  vni.LoopPage
}

// NewLoop fails: a daemon needs Linux.
func NewLoop(Engine, LoopConfig) (*Loop, error) {
	return nil, errors.New("poller: a NIC daemon needs Linux, this is " + runtime.GOOS)
}

// AddBell, RemoveBell, Do, Kick, Run and Close are never called, since there is no Loop.
func (*Loop) AddBell(int, uint16) error { return errors.ErrUnsupported }
func (*Loop) RemoveBell(int) error      { return errors.ErrUnsupported }
func (*Loop) Do(func(clock.Time))       {}
func (*Loop) Kick()                     {}
func (*Loop) Run(context.Context)       {}
func (*Loop) Close() error              { return nil }
