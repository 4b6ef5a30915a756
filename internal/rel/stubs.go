package rel

import (
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

type Module struct{}
type Endpoint struct{}
type Stats struct{}

func (s *Stats) Check() error { panic("soon") }

func New(cfg Config, h Handler) *Module                                           { panic("soon") }
func (m *Module) Receive(now clock.Time, from netip.AddrPort, frame []byte)       {}
func (m *Module) Progress(now clock.Time, out Frames) (work int, next clock.Time) { panic("soon") }
func (m *Module) Open(nic uint64, addr netip.AddrPort) (*Endpoint, error)         { panic("soon") }
func (m *Module) Endpoint(nic uint64) *Endpoint                                   { panic("soon") }
func (m *Module) Endpoints() []*Endpoint                                          { panic("soon") }
func (m *Module) Forget(now clock.Time, e *Endpoint)                              { panic("soon") }
func (m *Module) Close(now clock.Time, out Frames)                                { panic("soon") }
func (m *Module) Stats() *Stats                                                   { panic("soon") }

func (e *Endpoint) NIC() uint64                                        { panic("soon") }
func (e *Endpoint) Addr() netip.AddrPort                               { panic("soon") }
func (e *Endpoint) Incarnation() uint64                                { panic("soon") }
func (e *Endpoint) Up() bool                                           { panic("soon") }
func (e *Endpoint) RTT() time.Duration                                 { panic("soon") }
func (e *Endpoint) Stats() *Stats                                      { panic("soon") }
func (e *Endpoint) Connect(now clock.Time)                             { panic("soon") }
func (e *Endpoint) Reserve(now clock.Time, s wire.Space, n int) []byte { panic("soon") }
func (e *Endpoint) Control(now clock.Time, n int) []byte               { panic("soon") }
func (e *Endpoint) Post(now clock.Time, f *Fragment) (n int)           { panic("soon") }
func (e *Endpoint) PieceLen(t wire.Type) int                           { panic("soon") }
func (e *Endpoint) MaxRecord(s wire.Space) int                         { panic("soon") }
func (e *Endpoint) Withdraw(now clock.Time, f *Fragment)               { panic("soon") }
func (e *Endpoint) NewFragment() (wire.FragmentID, bool)               { panic("soon") }
func (e *Endpoint) FreeFragment(id wire.FragmentID)                    { panic("soon") }
func (e *Endpoint) Watch(n int)                                        { panic("soon") }

// CheckStatus is how a connectivity check stands.
type CheckStatus uint8

const (
	CheckNone CheckStatus = iota
	CheckRunning
	CheckOK
	CheckFailed
)

func (e *Endpoint) Check(now clock.Time)               { panic("soon") }
func (e *Endpoint) CheckResult() (CheckStatus, string) { panic("soon") }
