package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// KindNetstar is the measurement of what Net*'s paper claims for its interface (NETSTAR-30).
const KindNetstar = "netstar"

// Subjects of the rows.
const (
	NetstarMessages = "messages" // compared with TCP
	NetstarCalls    = "calls"    // system calls of processes that are attached to a daemon
	NetstarLink     = "link"     // system calls of the links of embedded NICs
	NetstarCopies   = "copies"   // of the bytes of a message
	NetstarRecovery = "recovery" // from lost frames
	NetstarTimer    = "timer"    // the cost of one
	NetstarTick     = "tick"     // the rejected alternative
)

// NetstarParts lists the subjects.
func NetstarParts() []string {
	return []string{NetstarMessages, NetstarCalls, NetstarLink, NetstarCopies, NetstarRecovery, NetstarTimer,
		NetstarTick}
}

// NetstarOptions say what to measure.
type NetstarOptions struct {
	Self string // path of the weft binary
	Sealing
	Parts []string // empty: all
	Sizes []int    // of messages compared with TCP, bytes
	// those between two hosts of a testbed, by AF_XDP as well
	Veth bool
	// those between two hosts, with cables of each of these rates in turn, in bits per second
	Rates []int64
	Loss  float64       // share of the frames, each way
	Time  time.Duration // for each row
}

// NetstarRow is one figure, or several that belong together.
type NetstarRow struct {
	Bench      string `json:"bench"`
	Sealed     bool   `json:"sealed"` // the links between NICs
	What       string `json:"what"`
	How        string `json:"how,omitempty"` // how messages are sent, or which timer it is
	Link       string `json:"link,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	Rate       int64  `json:"rate,omitempty"` // of the cables, in bits per second; 0: unlimited
	Size       int    `json:"size,omitempty"` // bytes
	// why there is no figure: what this machine does not permit
	Missing string `json:"missing,omitempty"`

	Beside   *BesideTCP  `json:"messages,omitempty"` // exactly one of these is set: the subject
	Calls    *CallCounts `json:"calls,omitempty"`
	OfLink   *LinkCalls  `json:"link_calls,omitempty"`
	Copies   *CopyCounts `json:"copies,omitempty"`
	Recovery *Recovery   `json:"recovery,omitempty"`
	Timer    *TimerCost  `json:"timer,omitempty"`
	Tick     *Tick       `json:"tick,omitempty"`
}

// BesideTCP compares messages with writes over TCP, in the same rounds.
type BesideTCP struct {
	MessageP50   int64   `json:"message_p50_ns"` // with its echo
	TCPP50       int64   `json:"tcp_p50_ns"`
	Faster       float64 `json:"times_faster"` // TCP's time by the message's
	MessageBytes float64 `json:"message_bytes_per_s"`
	TCPBytes     float64 `json:"tcp_bytes_per_s"`
	More         float64 `json:"times_bytes"` // the message's bytes per second by TCP's

	*OfRate // nil: the cables have no rate
}

// OfRate holds what a cable of a rate allows, and how much of it is used.
type OfRate struct {
	// Wire is the time on such a cable of the bytes of a message and its echo. A token bucket lets
	// a frame pass at once if the cable is idle. So the measured round trips do not include this
	// time, which is the larger part of a round trip on a real cable.
	Wire         int64   `json:"wire_ns"`
	MessageShare float64 `json:"message_share"` // share of the rate that the bytes of messages take
	TCPShare     float64 `json:"tcp_share"`
}

// ofRate relates r to the rate.
func (r *BesideTCP) ofRate(size int, rate int64) {
	if rate > 0 {
		r.OfRate = &OfRate{Wire: int64(2 * 8 * float64(size) / float64(rate) * 1e9),
			MessageShare: 8 * r.MessageBytes / float64(rate), TCPShare: 8 * r.TCPBytes / float64(rate)}
	}
}

// RunNetstar measures part by part, and passes each row to out.
func RunNetstar(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) error {
	parts := map[string]func(context.Context, NetstarOptions, func(NetstarRow) error) error{
		NetstarMessages: besideTCP, NetstarCalls: countCalls, NetstarLink: countLinkCalls,
		NetstarCopies: countCopies, NetstarRecovery: recoveries, NetstarTimer: timerCosts, NetstarTick: ticks,
	}
	for _, name := range NetstarParts() {
		if len(o.Parts) > 0 && !slices.Contains(o.Parts, name) {
			continue
		}
		err := parts[name](ctx, o, func(r NetstarRow) error {
			r.Bench, r.What, r.Sealed = KindNetstar, name, o.Sealed
			return out(r)
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("bench: %s: %w", name, err)
		}
	}
	return nil
}

// besideTCP measures messages of each link in turns with TCP. Over cables with a rate it
// measures UDP alone: AF_XDP frames meet no slow card on their host that could make them wait.
func besideTCP(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) error {
	for _, rate := range o.Rates {
		if err := o.besideOn(ctx, LinkUDP, rate, out); err != nil {
			return fmt.Errorf("rate of %d bits per second: %w", rate, err)
		}
	}
	if len(o.Rates) > 0 {
		return nil
	}
	links := []string{LinkShm, LinkUDP}
	if o.Veth {
		links = []string{LinkUDP, LinkXDP}
	}
	for _, link := range links {
		if err := o.besideOn(ctx, link, 0, out); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
	}
	return nil
}

func (o *NetstarOptions) besideOn(
	ctx context.Context, link string, rate int64, out func(NetstarRow) error,
) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	pair := Options{Kind: KindStream, Link: link, Deployment: DeployedEmbedded, Self: o.Self, Veth: o.Veth || rate > 0,
		Rate: rate, Sealing: o.Sealing}
	s, err := down.side(ctx, &pair)
	if err != nil {
		return err
	}
	for _, size := range o.Sizes {
		m, err := s.sample(ctx, KindStream, size, o.Time)
		if err != nil {
			return err
		}
		r := m.Streams
		b := &BesideTCP{
			MessageP50: r.MessageP50, TCPP50: r.TCPP50, Faster: float64(r.TCPP50) / float64(r.MessageP50),
			MessageBytes: r.MessageBytes, TCPBytes: r.TCPBytes, More: r.MessageBytes / r.TCPBytes,
		}
		b.ofRate(size, rate)
		if err = out(NetstarRow{Link: link, Deployment: DeployedEmbedded, Rate: rate, Size: size,
			Beside: b}); err != nil {
			return err
		}
	}
	return nil
}
