package weft

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Process is one process of the fabric: a name, and a virtual network interface to send and receive by. Any number of
// goroutines may use it at once (USNIC-57…60).
type Process struct {
	port       // 0
	name       Name
	addr       Address
	nic        *NIC // that it is embedded with; nil at a daemon
	closeNIC   bool
	groups     map[string]*Group // joined as it attached
	known      nameCache
	ports      portsTaken
	time       proc.Time
	askProgram func(context.Context, NICID, *ctl.Program) (*ctl.ProgramReply, error)

	// share makes or finds a segment, and returns what lets it go; nil: the NIC has none.
	share   func(id uint32, size int) (mem []byte, leave func() error, err error)
	calls   func() (kicks, wakes uint64) // nil: its NIC is in this program
	leave   func() error                 // when Close has ended every operation: the NIC forgets the process
	closing sync.Once
	ended   endErrors
}

// Name is what the process is called.
func (p *Process) Name() Name { return p.name }

// Address is the process itself, which no later process of the same name has.
func (p *Process) Address() Address { return p.addr }

// NIC is the NIC inside this program that the process is on; nil if its NIC is a daemon.
func (p *Process) NIC() *NIC { return p.nic }

// SystemCalls are those that a process attached to a daemon has made for its messages (NETSTAR-20…22). Where the NIC is in the same program there are
// none between the two, and the NIC's own are its link's: link_system_calls of [NIC.Counters].
type SystemCalls struct {
	Kicks uint64 // to have a NIC look that rests, or has not come to run yet
	Wakes uint64 // to be woken: none while a goroutine polls for what comes
}

// SystemCalls counts them, from when the process was attached.
func (p *Process) SystemCalls() (c SystemCalls) {
	if p.calls != nil {
		c.Kicks, c.Wakes = p.calls()
	}
	return c
}

// Copied is how many bytes of messages a process has copied itself, between the memory of the program and that which it shares with its NIC (NETSTAR-24). What the
// NIC copies is in its counters, nic_copied_out and nic_copied_in.
type Copied struct {
	Out, In uint64
}

// Copied counts them, from when the process was opened.
func (p *Process) Copied() (c Copied) {
	c.Out, c.In = p.p.Copied()
	return c
}

// Message tells of a message that has been received.
type Message struct {
	From Name    // of the sender
	Addr Address // of the sender: the one process of that name that sent it
	Tag  Tag
	Len  int // bytes that are in the buffer
	Full int // bytes of the message: more than Len if it was truncated

	token proc.Token
}

// IsCall reports whether the sender waits for a [Process.Reply].
func (m *Message) IsCall() bool { return m.token.IsCall() }

// init makes p the process with a process half.
func (p *Process) init(half *proc.Process) {
	p.p, p.of, p.names = half, p, &p.known
}

// set makes m what is told of a message. It is written in its place, since copies cost more.
func (m *Message) set(names *nameCache, pm *proc.Message) {
	m.From = names.name(&pm.From)
	m.Addr = Address{NICID(pm.NIC), pm.Slot, pm.Gen}
	m.Tag, m.Len, m.Full, m.token = Tag(pm.Tag&vni.TagMask), pm.Len, int(pm.Full), pm.Token
}

// Send sends a message, the concatenation of parts, to the process called to. It returns when the parts may be used
// again; the message is then on its way. If Send fails, the message was delivered once or not at all (decision 6). If it does
// not, and the session with the receiver's NIC ends before the message has arrived, the message is lost with all behind it; an
// [Event] says how many those may be.
//
// A message has any length, 0 included. One of more than 16 KiB waits at the sender, and Send with it, until a receive has met it. A shorter one
// waits for its receive at the receiver's NIC, where 4 MiB of them have room unless its daemon is configured otherwise; Send waits while there is none.
//
// A message to a name that no live NIC knows fails with [ErrNameUnknown]; see [Process.WaitName].
func (p *port) Send(ctx context.Context, to Name, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	w, ok := p.word(tag)
	if k := p.names.known(&to); k != nil && ok && p.p.Post(&k.dest.Name, w, parts) {
		return nil
	}
	d, err := p.to("send", to, tag)
	if err != nil {
		return err
	}
	return p.p.Send(ctx, d, w, parts...)
}

// TrySend is Send that never waits: it reports whether the message is on its way, and the parts may be used again. An embedded NIC takes most messages
// of up to 16 KiB so. If it is false nothing has been sent, and what Send or StartSend would say of the message is not known; at a daemon it always is.
func (p *port) TrySend(to Name, tag Tag, parts ...[]byte) bool {
	d, err := p.to("send", to, tag)
	return err == nil && p.p.TrySend(d, p.base|uint64(tag), parts...)
}

// SendMany sends messages to the process called to, each as Send does, in their order. It is for streams of short ones: an
// embedded NIC takes them in one visit, and they share its frames. It returns how many were sent: fewer than all with the
// error of the next, which like one of Send's was delivered once or not at all.
func (p *port) SendMany(ctx context.Context, to Name, tag Tag, messages [][]byte) (sent int, err error) {
	if err := ended(ctx, "send"); err != nil {
		return 0, err
	}
	d, err := p.to("send", to, tag)
	if err != nil {
		return 0, err
	}
	if len(messages) == 0 && p.p.Closed() {
		return 0, &OpError{Op: "send", Peer: d.Name, Err: ErrClosed}
	}
	return p.p.SendMany(ctx, d, p.base|uint64(tag), messages)
}

// SendDelivered is Send that returns when the receiver's NIC has accepted the message: it has come, and so have all that this
// process sent to the receiver before. It fails with [ErrTruncated] if the
// receive that the message met keeps only its beginning, and with [ErrNoReceiver] on a port from 0xff00 on if the receiver has never
// received on it: the library whose port it is is not in use there. A message of at most 16 KiB may be accepted before it
// meets a receive, when it is not known yet whether it will be truncated.
func (p *port) SendDelivered(ctx context.Context, to Name, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	d, err := p.to("send", to, tag)
	if err != nil {
		return err
	}
	return p.p.SendDelivered(ctx, d, p.base|uint64(tag), parts...)
}

// Multicast sends a message to each of some processes, by one command to the NIC, and returns when the parts may be used
// again. To each receiver it is a message like any other. If some cannot be sent to, the others are sent the message all the
// same, and the error names the first of those that are not.
func (p *port) Multicast(ctx context.Context, to []Name, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "multicast"); err != nil {
		return err
	}
	names := make([]vni.Name, len(to))
	for i, n := range to {
		d, err := p.to("multicast", n, tag)
		if err != nil {
			return err
		}
		names[i] = d.Name
	}
	return p.p.Multicast(ctx, names, p.base|uint64(tag), parts...)
}

// Recv receives one message into buf: from a process or [AnyProcess], with a tag or [AnyTag]. Of several receives that a
// message matches, the one posted first gets it. A message longer than buf fails with [ErrTruncated]; its beginning, and
// what Message tells of it, are there all the same.
//
// Messages of one process match in the order in which it sent them, and none before those ahead of it have come: see the package's
// "What a send promises".
//
// If ctx ends first, Recv returns ctx's error and no message is lost: one that was already coming in is returned
// instead (decision 9).
func (p *port) Recv(ctx context.Context, from Name, tag Tag, buf []byte) (m Message, err error) {
	if err := ended(ctx, "receive"); err != nil {
		return m, err
	}
	match, ok := p.match(tag)
	if !ok {
		return m, p.badTag("receive", tag)
	}
	d := &anyProcess
	if from != AnyProcess {
		k := p.names.known(&from)
		if k == nil {
			if k, err = p.names.learn(from); err != nil {
				return m, &OpError{Op: "receive", Err: err}
			}
		}
		d = &k.dest
	}
	if met := p.p.Meet(&d.Name, match, buf); met.From != nil {
		who := met.From
		if m.From = from; from == AnyProcess {
			m.From = p.names.name(&who.Name)
		}
		m.Addr = Address{NICID(who.NIC), who.Slot, who.Gen}
		m.Tag, m.Len, m.Full = Tag(met.Tag&vni.TagMask), met.Len, met.Len
		return m, nil
	}
	return p.recv(ctx, d, match, buf)
}

// recv is Recv of a message that does not come at once.
func (p *port) recv(ctx context.Context, from *proc.Dest, match proc.Match, buf []byte) (m Message, err error) {
	var pm proc.Message
	err = p.p.RecvInto(ctx, &pm, from, match, buf)
	m.set(p.names, &pm)
	return m, err
}

var anyProcess proc.Dest

// Call sends a request and waits for the reply, which it receives into reply. The called process receives the request like any other
// message. [Message.IsCall] is true for it, and [Process.Reply] answers it. The Tag of the returned Message is 0.
//
// If Call fails, the request was delivered once or not at all. Call fails with [ErrProcessGone] or [ErrUnreachable] if the called process
// ends, or its NIC is silent, while Call waits. It fails with [ErrTruncated] if the reply is longer than the buffer, which then holds the
// beginning. It fails with ctx's error if ctx ends first. Then the NIC tells the called process's NIC that the caller has given up: a later
// Reply fails with [ErrCancelled], and a request that has not arrived yet is discarded. A reply that arrives after the end of ctx is discarded.
func (p *port) Call(ctx context.Context, to Name, tag Tag, request, reply []byte) (Message, error) {
	if err := ended(ctx, "call"); err != nil {
		return Message{}, err
	}
	d, err := p.to("call", to, tag)
	if err != nil {
		return Message{}, err
	}
	pm, err := p.p.Call(ctx, d, p.base|uint64(tag), reply, request)
	var m Message
	m.set(p.names, &pm)
	return m, err
}

// Reply answers a message that was sent by Call. The reply goes to the process that called, and to no later process of that name. A nil error
// means that the reply has left, not that the caller has received it.
//
// A call takes one reply. A second Reply fails with [ErrBadArgument], also with a copy of the Message, and also while the first one still
// runs. If the first Reply failed, the call may be answered again. A process recognizes a second Reply to any of the 32,736 calls that it received
// last. A second Reply to an older call leaves, and the caller's NIC discards it.
//
// Reply also fails with [ErrBadArgument] if the message is no call, or if only a Probe has told of it. It fails with [ErrProcessGone] if the caller
// has ended, and with [ErrUnreachable] if the caller's NIC is silent. It fails with [ErrCancelled] if the caller has given up: at once between two
// processes of one NIC, else as soon as the caller's NIC has told this one. A reply of up to 16 KiB that leaves before that is lost, and Reply
// returns nil. A NIC remembers the last 1,024 calls to each process that the callers of one other NIC have given up.
func (p *port) Reply(ctx context.Context, m Message, parts ...[]byte) error {
	if err := ended(ctx, "reply"); err != nil {
		return err
	}
	if p.closed.Load() {
		return p.badTag("reply", m.Tag)
	}
	pm := proc.Message{NIC: uint64(m.Addr.NIC), Slot: m.Addr.Slot, Gen: m.Addr.Generation, Token: m.token}
	pm.From, _ = m.From.vni() // for what is said of it if it fails
	return p.p.Reply(ctx, &pm, parts...)
}

// Put writes the concatenation of parts into a region of another process, from offset on, without its help (USNIC-31).
// It returns when the bytes are in place. [ErrRegion] says that the handle is not, or no longer, a region's, [ErrRange]
// that the bytes go beyond its end.
func (p *Process) Put(ctx context.Context, h Handle, offset int, parts ...[]byte) error {
	if err := ended(ctx, "put"); err != nil {
		return err
	}
	if offset < 0 {
		return badOffset("put", offset)
	}
	return p.p.Put(ctx, h.proc(), uint64(offset), parts...)
}

// Get reads len(buf) bytes of a region of another process, from offset on, without its help (USNIC-54).
func (p *Process) Get(ctx context.Context, h Handle, offset int, buf []byte) error {
	if err := ended(ctx, "get"); err != nil {
		return err
	}
	if offset < 0 {
		return badOffset("get", offset)
	}
	return p.p.Get(ctx, h.proc(), uint64(offset), buf)
}

// WaitName waits until a live process is called name, and returns its address.
func (p *Process) WaitName(ctx context.Context, name Name) (Address, error) {
	if err := ended(ctx, "wait for"); err != nil {
		return Address{}, err
	}
	n, err := name.vni()
	if err != nil {
		return Address{}, &OpError{Op: "wait for", Err: fmt.Errorf("%w: %v", ErrBadArgument, err)}
	}
	d, err := p.p.Resolve(ctx, n)
	return Address{NICID(d.NIC), d.Slot, d.Gen}, err
}

// Close ends the process: calls under way end with [ErrClosed], every process that waits for it is told that it is
// gone, and its name is free. Regions that are open stay usable memory until they are closed, but no other process reaches
// them any more. Close of a process made by [Open] closes the NIC too.
func (p *Process) Close() error {
	err := p.close()
	if p.closeNIC {
		return errors.Join(err, p.nic.Close())
	}
	return err
}

func (p *Process) close() error {
	p.closing.Do(func() {
		p.ended.add(p.p.Close(), p.leave())
	})
	return p.ended.get()
}

// endErrors are the errors of a process's end. What lets its segment go adds to them, which may be a call that Close has not waited for, such as
// that of an Inbox.
type endErrors struct {
	mu  sync.Mutex
	err error
}

func (e *endErrors) add(errs ...error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = errors.Join(e.err, errors.Join(errs...))
}

func (e *endErrors) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// to reads the destination of a message.
func (p *port) to(op string, to Name, tag Tag) (proc.Dest, error) {
	if _, ok := p.word(tag); !ok {
		return proc.Dest{}, p.badTag(op, tag)
	}
	if to == AnyProcess {
		return proc.Dest{}, &OpError{Op: op, Err: fmt.Errorf("%w: a message needs a receiver's name; AnyProcess is for receives", ErrBadArgument)}
	}
	return p.from(op, to)
}

func (p *port) from(op string, n Name) (proc.Dest, error) {
	if n == AnyProcess {
		return proc.Dest{}, nil
	}
	if k := p.names.known(&n); k != nil {
		return k.dest, nil
	}
	k, err := p.names.learn(n)
	if err != nil {
		return proc.Dest{}, &OpError{Op: op, Err: err}
	}
	return k.dest, nil
}

// source reads what a receive chooses messages by.
func (p *port) source(op string, from Name, tag Tag) (d proc.Dest, m proc.Match, err error) {
	m, ok := p.match(tag)
	if !ok {
		return d, m, p.badTag(op, tag)
	}
	d, err = p.from(op, from)
	return d, m, err
}

func (h Handle) proc() proc.Handle {
	return proc.Handle{NIC: uint64(h.owner.NIC), Slot: h.owner.Slot, Gen: h.owner.Generation, Region: h.region, Key: h.key}
}

func badOffset(op string, offset int) error {
	return &OpError{Op: op, Err: fmt.Errorf("%w: offset %d; expected 0 or more", ErrBadArgument, offset)}
}
