package rel

import (
	"errors"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Reasons for Handler.Down, and errors of Open. Callers test them with errors.Is.
var (
	ErrUnreachable = errors.New("rel: peer NIC is unreachable")
	ErrRestarted   = errors.New("rel: peer NIC has restarted")
	ErrSessionLost = errors.New("rel: peer NIC has dropped the session")
	ErrGoodbye     = errors.New("rel: peer NIC has closed")
	ErrVersion     = errors.New("rel: peer NIC speaks no version spoken here")
	ErrOverrun     = errors.New("rel: peer NIC acknowledges nothing and keeps asking")
	ErrRefused     = errors.New("rel: peer NIC is not admitted")
	ErrForgotten   = errors.New("rel: peer NIC was removed from the configuration")
	ErrPeers       = errors.New("rel: too many peer NICs")
	ErrAddress     = errors.New("rel: peer NIC is up at another address")
)

// Frames is where a Module puts its frames; a link.Driver is one.
type Frames interface {
	MTU() int                         // largest frame in bytes
	Reserve(to netip.AddrPort) []byte // room for one frame, nil when the driver can take no more for now
	Commit(n int)                     // makes its first n bytes a frame
}

// Config is what a Module is made of. Everything it does follows from it and from the calls made.
type Config struct {
	NIC         uint64 // this NIC's id, not 0
	Incarnation uint64 // larger in every life of the NIC
	Seed        uint64 // of session indices, cookies and first sequence numbers

	MTU             int    // of the link, in bytes
	Tagged          bool   // frames carry tags: the link is not Checked
	Reliable        bool   // the link is Reliable and Ordered: a committed segment counts as acknowledged
	ReceiveCapacity uint64 // bytes of frames that may be under way to this NIC; 0 = limits.ReceiveCapacity

	UnreachableAfter, AckDelay, ProbeEvery time.Duration // 0 = default of limits

	MaxPeers int           // 0 = limits.Peers
	Faults   Faults        // hooks for tests; nil = off
	Defect   mutate.Defect // for the simulator's own test
}

// Handler is told what happens. Its methods are called from within Receive, Progress and the Endpoint's methods and may
// call back into the Module and its Endpoints, except for Receive, Progress and Close.
type Handler interface {
	// Admit says whether this NIC may open a pair with us from that address; the error is only counted.
	Admit(now clock.Time, nic uint64, from netip.AddrPort) error

	// Deliver hands over one record, exactly once, in order of arrival; it is valid during the call. Void never comes.
	Deliver(now clock.Time, e *Endpoint, r wire.Record)

	// Released says that f's memory is needed no more: every piece is acknowledged (f.Err nil), the owner withdrew it, or
	// the peer is down (f.Err says why).
	Released(now clock.Time, f *Fragment)

	// Writable says that a Reserve or Post that was refused may now succeed. It follows Up as well.
	Writable(now clock.Time, e *Endpoint)

	// Up says that a session with e is open.
	Up(now clock.Time, e *Endpoint)

	// Down says that the session, or the attempt at one, is over, and why. Its fragments were Released before.
	Down(now clock.Time, e *Endpoint, why error)
}
