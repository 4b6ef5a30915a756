package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
)

// CopyCounts says how often the bytes of a message were copied on each side. Processes, NICs and
// links count their copies themselves. The kernel's copies are not included: with a link of
// sockets it copies each frame once on each side, with shared memory or AF_XDP with mapped
// memory it copies none.
type CopyCounts struct {
	CopiedMessages int64   `json:"messages"`
	Sender         float64 `json:"sender_copies_per_message"`
	// of those, the process's own copies
	SenderOwn   float64 `json:"sender_process_copies_per_message"`
	Receiver    float64 `json:"receiver_copies_per_message"`
	ReceiverOwn float64 `json:"receiver_process_copies_per_message"`
}

const (
	copiedShort = 64
	copiedLong  = 64 << 10
)

// copyWays are the messages whose copies are counted, and the number of each.
var copyWays = []struct {
	how      string
	size     int
	messages int
	regions  bool // both buffers are in regions
}{
	{"short", copiedShort, 256, false},
	{"long", copiedLong, 64, false},
	{"long, between regions", copiedLong, 64, true},
}

// countCopies counts copies with embedded NICs and with daemons.
func countCopies(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) error {
	for _, at := range []struct{ link, deployment string }{
		{LinkShm, DeployedEmbedded}, {LinkUDP, DeployedEmbedded}, {LinkUDP, DeployedDaemon}, {LinkNone, DeployedShared},
	} {
		if err := o.copiesAt(ctx, at.link, at.deployment, out); err != nil {
			return fmt.Errorf("%s, link %s: %w", at.deployment, at.link, err)
		}
	}
	return nil
}

func (o *NetstarOptions) copiesAt(
	ctx context.Context, link, deployment string, out func(NetstarRow) error,
) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	var m *copyMeter
	switch deployment {
	case DeployedEmbedded:
		m, err = down.copiesInside(ctx, link, o.Sealing)
	default:
		m, err = down.copiesAtDaemons(ctx, o.Self, o.Sealing, deployment == DeployedShared)
	}
	if err != nil {
		return err
	}
	for _, w := range copyWays {
		from, to := make([]byte, w.size), make([]byte, w.size)
		if w.regions {
			var mem [2][][]byte
			for i, s := range []*copySide{m.from, m.to} {
				region, buffers, err := memory(s.p, 1, w.size)
				if err != nil {
					return err
				}
				down.add(region.Close)
				mem[i] = buffers
			}
			from, to = mem[0][0], mem[1][0]
		}
		c, err := m.count(ctx, from, to, w.messages)
		if err != nil {
			return fmt.Errorf("%s: %w", w.how, err)
		}
		if err := out(NetstarRow{How: w.how, Link: link, Deployment: deployment, Size: w.size, Copies: c}); err != nil {
			return err
		}
	}
	return nil
}

// copyMeter has two processes, and the counts of their NICs, which may be the same.
type copyMeter struct{ from, to *copySide }

type copySide struct {
	p      *weft.Process
	counts func() (nicCopies, error)
}

// nicCopies holds counts of a NIC.
type nicCopies struct {
	sent, received uint64 // messages
	out, in        uint64 // bytes copied
	frames         uint64 // of one message each, copied as a whole
}

func copiesIn(counters map[string]uint64) nicCopies {
	return nicCopies{counters["nic_messages_sent"], counters["nic_messages_received"], counters["nic_copied_out"],
		counters["nic_copied_in"],
		counters["rel_singles_copied"] + counters["link_frames_copied"]}
}

func (a nicCopies) since(b nicCopies) nicCopies {
	return nicCopies{a.sent - b.sent, a.received - b.received, a.out - b.out, a.in - b.in, a.frames - b.frames}
}

// copiesInside returns two processes with embedded NICs.
func (u *undo) copiesInside(ctx context.Context, link string, sealing Sealing) (*copyMeter, error) {
	p, err := u.localPairOn(ctx, link, sealing, nil)
	if err != nil {
		return nil, err
	}
	side := func(p *weft.Process) *copySide {
		return &copySide{p, func() (nicCopies, error) { return copiesIn(p.NIC().Counters()), nil }}
	}
	return &copyMeter{side(p.client.p), side(p.server)}, nil
}

// copiesAtDaemons returns two processes, each attached to its own daemon, or both to one.
func (u *undo) copiesAtDaemons(ctx context.Context, self string, sealing Sealing, shared bool) (*copyMeter, error) {
	m := new(copyMeter)
	at := place{self: self, listen: "127.0.0.1:0", sealing: sealing}
	d, err := u.startDaemon(ctx, at)
	if err != nil {
		return nil, err
	}
	if m.to, err = u.copySideAt(ctx, d, ServerName); err != nil {
		return nil, err
	}
	if !shared {
		at.nodes = []weft.Node{{Addr: d.addr}}
		if d, err = u.startDaemon(ctx, at); err != nil {
			return nil, err
		}
	}
	if m.from, err = u.copySideAt(ctx, d, ClientName); err != nil {
		return nil, err
	}
	_, err = m.from.p.WaitName(ctx, ServerName)
	return m, err
}

func (u *undo) copySideAt(ctx context.Context, d *daemon, name weft.Name) (*copySide, error) {
	p, err := u.attach(ctx, d.socket, name)
	return &copySide{p, func() (nicCopies, error) {
		_, c, err := d.stat(ctx)
		return copiesIn(c), err
	}}, err
}

// count sends messages one by one to posted receives.
func (m *copyMeter) count(ctx context.Context, from, to []byte, n int) (*CopyCounts, error) {
	if err := sleep(ctx, atRest); err != nil { // earlier messages are counted by then
		return nil, err
	}
	var nics [2]nicCopies
	for i, s := range []*copySide{m.from, m.to} {
		var err error
		if nics[i], err = s.counts(); err != nil {
			return nil, err
		}
	}
	out, in := m.from.p.Stats().CopiedOutBytes, m.to.p.Stats().CopiedInBytes
	for range n {
		if err := m.one(ctx, from, to); err != nil {
			return nil, err
		}
	}
	out, in = m.from.p.Stats().CopiedOutBytes-out, m.to.p.Stats().CopiedInBytes-in
	if err := m.counted(ctx, &nics, uint64(n)); err != nil {
		return nil, err
	}
	bytes, messages := float64(n*len(from)), float64(n)
	c := &CopyCounts{CopiedMessages: int64(n), SenderOwn: float64(out) / bytes, ReceiverOwn: float64(in) / bytes}
	c.Sender = c.SenderOwn + float64(nics[0].out)/bytes + float64(nics[0].frames)/messages
	c.Receiver = c.ReceiverOwn + float64(nics[1].in)/bytes
	return c, nil
}

// one sends one message.
func (m *copyMeter) one(ctx context.Context, from, to []byte) error {
	ctx, cancel := context.WithTimeout(ctx, inABurst)
	defer cancel()
	var in weft.Op
	if err := m.to.p.StartRecv(&in, m.from.p.Name(), tagData, to); err != nil {
		return err
	}
	err := m.from.p.Send(ctx, m.to.p.Name(), tagData, from)
	if err != nil {
		in.Cancel()
	}
	if _, failed := in.Wait(ctx); err == nil {
		err = failed
	}
	return err
}

// counted replaces the earlier counts in nics by their growth, once n messages are counted. A
// daemon publishes its counts only at intervals.
func (m *copyMeter) counted(ctx context.Context, nics *[2]nicCopies, n uint64) error {
	end := time.Now().Add(patience)
	for {
		if err := sleep(ctx, atRest); err != nil {
			return err
		}
		from, err := m.from.counts()
		if err != nil {
			return err
		}
		to, err := m.to.counts()
		if err != nil {
			return err
		}
		from, to = from.since(nics[0]), to.since(nics[1])
		if from.sent >= n && to.received >= n {
			nics[0], nics[1] = from, to
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("bench: of %d messages the sender's NIC has counted %d and the receiver's %d for %v",
				n, from.sent, to.received, patience)
		}
	}
}
