package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// ErrUnavailable is wrapped by errors that mean that the kernel, or this user, cannot run
// programs in the driver.
var ErrUnavailable = errors.New("programs in the driver are unavailable")

// Indices in the array of programs that jump to one another. The NIC's own program jumps to
// StepDispatch with each frame for its address. A frame for no program goes on to StepOn, which
// passes it to the engine.
const (
	StepDispatch = 0
	StepOn       = 1
	stepFirst    = 2
)

// MostResident is the largest number of programs in the driver of one NIC.
const MostResident = 64

// HostConfig holds the parameters of a Host.
type HostConfig struct {
	Path    Path
	Service uint8 // service of the datagrams for programs
	// Pieces means that the NIC's program takes frames in pieces (BPF_F_XDP_HAS_FRAGS). Then the
	// programs that it jumps to must do so, too.
	Pieces bool
}

// A Host holds what the programs of one NIC share in the kernel: the sessions of their messages,
// the places of the programs, the displayed numbers, and the news of flags. The last two are
// rings: a process sleeps until its flag is set, and a log can wait.
type Host struct {
	cfg      HostConfig
	sessions *ebpf.Map
	steps    *ebpf.Map
	slots    *ebpf.Map // a program's number → its index in steps
	displays *ebpf.Map
	bells    *ebpf.Map
	tables   *ebpf.Map
	dispatch *ebpf.Program
	shown    *ringbuf.Reader // reads displays
	rang     *ringbuf.Reader // reads bells
	taken    [MostResident]bool
}

const (
	recordLen  = 16
	ringBytes  = 1 << 16
	sessionMax = 1 << 13
)

// NewHost makes the shared part. The error wraps ErrUnavailable if the kernel or the user's
// rights do not suffice.
func NewHost(cfg HostConfig) (h *Host, err error) {
	h = &Host{cfg: cfg}
	defer func() {
		if err != nil {
			h.Close()
			h, err = nil, fmt.Errorf("%w: %w (needs Linux 5.19 or later, CAP_BPF and CAP_NET_ADMIN)",
				ErrUnavailable, err)
		}
	}()
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&h.sessions, ebpf.MapSpec{Name: "weft_sessions", Type: ebpf.Hash,
			KeySize: 4, ValueSize: sessionLen, MaxEntries: sessionMax}},
		{&h.steps, ebpf.MapSpec{Name: "weft_steps", Type: ebpf.ProgramArray,
			KeySize: 4, ValueSize: 4, MaxEntries: stepFirst + MostResident}},
		{&h.slots, ebpf.MapSpec{Name: "weft_slots", Type: ebpf.Hash,
			KeySize: 4, ValueSize: 4, MaxEntries: MostResident}},
		{&h.displays, ebpf.MapSpec{Name: "weft_displays", Type: ebpf.RingBuf, MaxEntries: ringBytes}},
		{&h.bells, ebpf.MapSpec{Name: "weft_bells", Type: ebpf.RingBuf, MaxEntries: ringBytes}},
		{&h.tables, ebpf.MapSpec{Name: "weft_tables", Type: ebpf.Array,
			KeySize: 4, ValueSize: tablesLen, MaxEntries: 1}},
	} {
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			return h, fmt.Errorf("making %s: %w", m.spec.Name, err)
		}
	}
	if err := h.tables.Put(uint32(0), tables()); err != nil {
		return h, fmt.Errorf("entering the tables of the checksum: %w", err)
	}
	if h.shown, err = ringbuf.NewReader(h.displays); err != nil {
		return h, fmt.Errorf("reading the displays: %w", err)
	}
	if h.rang, err = ringbuf.NewReader(h.bells); err != nil {
		return h, fmt.Errorf("reading the bells: %w", err)
	}
	if h.dispatch, err = h.load("weft_dispatch", dispatcher(cfg).finish(), nil); err != nil {
		return h, err
	}
	return h, h.steps.Put(uint32(StepDispatch), h.dispatch)
}

// Steps returns the array of programs that the NIC's own program jumps to.
func (h *Host) Steps() *ebpf.Map { return h.steps }

// Offsets in a session's entry.
const (
	sessionNIC          = 8 * iota
	sessionCookie       //
	sessionTop          // the last counter that a program has taken
	sessionMost         //
	sessionReplyCookie  //
	sessionReplyCounter // the next counter
	sessionReplyIndex
	sessionLen
)

// A Session is a pair of NICs as programs in the driver know it: the sender of a frame, and how
// to answer it. Replies have their own index and counter, apart from the engine's, since two
// senders cannot share a counter.
type Session struct {
	NIC    uint64 // the sender of the frames
	Cookie uint64 // in the tags of its frames
	// Most is the largest length of a reply's whole frame, in bytes: what the path carries.
	Most int

	ReplyIndex   uint32 // outer header of replies
	ReplyCookie  uint64 // tag of replies
	ReplyCounter uint64 // first packet counter of replies, not 0
}

// SetSession adds a session, or replaces the one with the same index. index is the one in the
// peer's frames.
func (h *Host) SetSession(index uint32, s Session) error {
	if index == 0 || s.ReplyCounter == 0 {
		return errors.New(
			"enter a session for programs in the driver: index or packet counter is 0; expected 1 or more")
	}
	b := make([]byte, sessionLen)
	put := binary.NativeEndian.PutUint64
	put(b[sessionNIC:], s.NIC)
	put(b[sessionCookie:], s.Cookie)
	put(b[sessionMost:], uint64(min(max(s.Most-messageAt-tagLen, 0), MostMessage)))
	put(b[sessionReplyCookie:], s.ReplyCookie)
	put(b[sessionReplyCounter:], s.ReplyCounter)
	binary.NativeEndian.PutUint32(b[sessionReplyIndex:], s.ReplyIndex)
	if err := h.sessions.Put(index, b); err != nil {
		return fmt.Errorf("enter session %d for programs in the driver: %w", index, err)
	}
	return nil
}

// RemoveSession removes a session. Frames with its index then go on to the engine.
func (h *Host) RemoveSession(index uint32) error {
	if err := h.sessions.Delete(index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("remove session %d for programs in the driver: %w", index, err)
	}
	return nil
}

// MostTold is about the number of records in a full ring. If that many were read, others may
// have been lost.
const MostTold = 2048

// Display waits until a program displays a number. It returns os.ErrDeadlineExceeded at the
// deadline, and os.ErrClosed after Close. Only one goroutine may call it at a time.
func (h *Host) Display(deadline time.Time) (program uint32, value int64, err error) {
	return next(h.shown, deadline)
}

// Rang waits, as Display does, until a program sets a flag or clears a lock in a segment. A
// process may sleep until then.
func (h *Host) Rang(deadline time.Time) (segment uint32, err error) {
	_, v, err := next(h.rang, deadline)
	return uint32(v), err
}

// next reads a record of a ring.
func next(r *ringbuf.Reader, deadline time.Time) (program uint32, value int64, err error) {
	r.SetDeadline(deadline)
	rec, err := r.Read()
	if err != nil {
		return 0, 0, err
	}
	if len(rec.RawSample) < recordLen {
		return 0, 0, fmt.Errorf(
			"what a program in the driver tells has %d bytes; expected %d", len(rec.RawSample), recordLen)
	}
	return binary.NativeEndian.Uint32(rec.RawSample), int64(binary.NativeEndian.Uint64(rec.RawSample[8:])), nil
}

// Close removes everything from the kernel that nothing else holds.
func (h *Host) Close() error {
	var err error
	for _, r := range []*ringbuf.Reader{h.shown, h.rang} {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	if h.dispatch != nil {
		err = errors.Join(err, h.dispatch.Close())
	}
	for _, m := range []*ebpf.Map{h.sessions, h.steps, h.slots, h.displays, h.bells, h.tables} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}
