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

// What a row of it is about.
const (
	NetstarMessages = "messages" // beside TCP
	NetstarCalls    = "calls"    // system calls of processes that are attached to a daemon
	NetstarLink     = "link"     // system calls of the links of NICs inside the program
	NetstarCopies   = "copies"   // of the bytes of a message
	NetstarRecovery = "recovery" // from frames that are lost
	NetstarTimer    = "timer"    // what one costs
	NetstarTick     = "tick"     // the rejected alternative
)

// NetstarParts lists them.
func NetstarParts() []string {
	return []string{NetstarMessages, NetstarCalls, NetstarLink, NetstarCopies, NetstarRecovery, NetstarTimer, NetstarTick}
}

// NetstarOptions say what to measure.
type NetstarOptions struct {
	Self string // path of the weft binary
	Sealing
	Parts []string      // empty: all
	Sizes []int         // of messages beside TCP, bytes
	Veth  bool          // those between two hosts that are made for it, by AF_XDP as well
	Loss  float64       // share of the frames, each way
	Time  time.Duration // for each row
}

// NetstarRow is one figure, or a few that belong together.
type NetstarRow struct {
	Bench      string `json:"bench"`
	Sealed     bool   `json:"sealed"` // the links between NICs
	What       string `json:"what"`
	How        string `json:"how,omitempty"` // messages are sent, or what a timer is
	Link       string `json:"link,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	Size       int    `json:"size,omitempty"`    // bytes
	Missing    string `json:"missing,omitempty"` // why there is no figure: what this machine does not allow

	Beside   *BesideTCP  `json:"messages,omitempty"` // what it is about, and nothing else
	Calls    *CallCounts `json:"calls,omitempty"`
	OfLink   *LinkCalls  `json:"link_calls,omitempty"`
	Copies   *CopyCounts `json:"copies,omitempty"`
	Recovery *Recovery   `json:"recovery,omitempty"`
	Timer    *TimerCost  `json:"timer,omitempty"`
	Tick     *Tick       `json:"tick,omitempty"`
}

// BesideTCP has messages, and writes over TCP, in the same rounds.
type BesideTCP struct {
	MessageP50   int64   `json:"message_p50_ns"` // with its echo
	TCPP50       int64   `json:"tcp_p50_ns"`
	Faster       float64 `json:"times_faster"` // TCP's time by the message's
	MessageBytes float64 `json:"message_bytes_per_s"`
	TCPBytes     float64 `json:"tcp_bytes_per_s"`
	More         float64 `json:"times_bytes"` // the message's bytes a second by TCP's
}

// RunNetstar measures part by part, and hands over row by row.
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

// besideTCP measures messages of each link beside TCP.
func besideTCP(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) error {
	links := []string{LinkShm, LinkUDP}
	if o.Veth {
		links = []string{LinkUDP, LinkXDP}
	}
	for _, link := range links {
		if err := o.besideOn(ctx, link, out); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
	}
	return nil
}

func (o *NetstarOptions) besideOn(ctx context.Context, link string, out func(NetstarRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	pair := Options{Kind: KindStream, Link: link, Deployment: DeployedEmbedded, Self: o.Self, Veth: o.Veth, Sealing: o.Sealing}
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
		err = out(NetstarRow{Link: link, Deployment: DeployedEmbedded, Size: size, Beside: &BesideTCP{
			MessageP50: r.MessageP50, TCPP50: r.TCPP50, Faster: float64(r.TCPP50) / float64(r.MessageP50),
			MessageBytes: r.MessageBytes, TCPBytes: r.TCPBytes, More: r.MessageBytes / r.TCPBytes,
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
