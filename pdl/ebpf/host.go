package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// ErrUnavailable is wrapped by errors that say that the kernel, or this user, cannot have programs in the driver.
var ErrUnavailable = errors.New("programs in the driver are unavailable")

// What stands where in the array of programs that jump to one another. The NIC's own program jumps to StepDispatch with each frame
// for its address; what is for no program goes on to StepOn, which gives it to the engine.
const (
	StepDispatch = 0
	StepOn       = 1
	stepFirst    = 2
)

// MostResident is how many programs may reside in the driver of one NIC.
const MostResident = 64

// HostConfig says what a Host is made for.
type HostConfig struct {
	Path    Path
	Service uint8 // of the datagrams that are for programs
	Pieces  bool  // the NIC's program takes frames in pieces (BPF_F_XDP_HAS_FRAGS): so must those that it jumps to
}

// A Host is what the programs of one NIC share in the kernel: who sends to them, where they are, and what they display.
type Host struct {
	cfg      HostConfig
	sessions *ebpf.Map
	steps    *ebpf.Map
	slots    *ebpf.Map // a program's number → its place in steps
	displays *ebpf.Map
	tables   *ebpf.Map
	dispatch *ebpf.Program
	reader   *ringbuf.Reader
	taken    [MostResident]bool
}

const (
	displayLen  = 16
	displayRing = 1 << 16
	sessionMax  = 1 << 13
)

// NewHost makes what programs share. The error wraps ErrUnavailable if there can be none here.
func NewHost(cfg HostConfig) (h *Host, err error) {
	h = &Host{cfg: cfg}
	defer func() {
		if err != nil {
			h.Close()
			h, err = nil, fmt.Errorf("%w: %w (needs Linux 5.19 or later, CAP_BPF and CAP_NET_ADMIN)", ErrUnavailable, err)
		}
	}()
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&h.sessions, ebpf.MapSpec{Name: "weft_sessions", Type: ebpf.Hash, KeySize: 4, ValueSize: sessionLen, MaxEntries: sessionMax}},
		{&h.steps, ebpf.MapSpec{Name: "weft_steps", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: stepFirst + MostResident}},
		{&h.slots, ebpf.MapSpec{Name: "weft_slots", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: MostResident}},
		{&h.displays, ebpf.MapSpec{Name: "weft_displays", Type: ebpf.RingBuf, MaxEntries: displayRing}},
		{&h.tables, ebpf.MapSpec{Name: "weft_tables", Type: ebpf.Array, KeySize: 4, ValueSize: tablesLen, MaxEntries: 1}},
	} {
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			return h, fmt.Errorf("making %s: %w", m.spec.Name, err)
		}
	}
	if err := h.tables.Put(uint32(0), tables()); err != nil {
		return h, fmt.Errorf("entering the tables of the checksum: %w", err)
	}
	if h.reader, err = ringbuf.NewReader(h.displays); err != nil {
		return h, fmt.Errorf("reading the displays: %w", err)
	}
	if h.dispatch, err = h.load("weft_dispatch", dispatcher(cfg).finish(), nil); err != nil {
		return h, err
	}
	return h, h.steps.Put(uint32(StepDispatch), h.dispatch)
}

// Steps is the array of programs for the NIC's own one to jump to.
func (h *Host) Steps() *ebpf.Map { return h.steps }

// Where things lie in a session's entry.
const (
	sessionNIC          = 8 * iota
	sessionCookie       //
	sessionTop          // the last counter that a program has taken
	sessionMost         //
	sessionReplyCookie  //
	sessionReplyCounter // the next
	sessionReplyIndex
	sessionLen
)

// A Session is a pair of NICs as programs in the driver know it: who a frame is from, and how it is answered. Index and counter of
// replies are not those of the engine, since two that count cannot share a counter.
type Session struct {
	NIC    uint64 // that the frames are from
	Cookie uint64 // in the tags of its frames
	Most   int    // bytes that a reply may have with all of its frame: what the path carries

	ReplyIndex   uint32 // for its frames: outer header,
	ReplyCookie  uint64 // tag,
	ReplyCounter uint64 // and the first packet counter, not 0
}

// SetSession enters a session by the index that the peer's frames have, or another in place of it.
func (h *Host) SetSession(index uint32, s Session) error {
	if index == 0 || s.ReplyCounter == 0 {
		return errors.New("enter a session for programs in the driver: index or packet counter is 0; expected 1 or more")
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

// RemoveSession takes a session out; frames with its index go on to the engine.
func (h *Host) RemoveSession(index uint32) error {
	if err := h.sessions.Delete(index); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("remove session %d for programs in the driver: %w", index, err)
	}
	return nil
}

// What an Event is of.
const (
	eventDisplay = iota // a number
	eventRang           // a segment
)

// An Event is what a program in the driver tells: it has displayed a number or, where Rang is set, it has set a flag or cleared a lock in the segment of
// that number, for which a process may sleep.
type Event struct {
	Program uint32
	Rang    bool
	Value   int64
}

// Next waits until a program tells something, or until the deadline, which is os.ErrDeadlineExceeded. It is for one goroutine at a time; Close ends
// it with os.ErrClosed.
func (h *Host) Next(deadline time.Time) (e Event, err error) {
	h.reader.SetDeadline(deadline)
	r, err := h.reader.Read()
	if err != nil {
		return e, err
	}
	if len(r.RawSample) < displayLen {
		return e, fmt.Errorf("what a program in the driver tells has %d bytes; expected %d", len(r.RawSample), displayLen)
	}
	word := binary.NativeEndian.Uint32
	return Event{word(r.RawSample), word(r.RawSample[4:]) == eventRang, int64(binary.NativeEndian.Uint64(r.RawSample[8:]))}, nil
}

// Display is Next for numbers that are displayed alone.
func (h *Host) Display(deadline time.Time) (program uint32, value int64, err error) {
	for {
		e, err := h.Next(deadline)
		if err != nil || !e.Rang {
			return e.Program, e.Value, err
		}
	}
}

// Close takes everything out of the kernel that nothing else holds.
func (h *Host) Close() error {
	var err error
	if h.reader != nil {
		err = h.reader.Close()
	}
	if h.dispatch != nil {
		err = errors.Join(err, h.dispatch.Close())
	}
	for _, m := range []*ebpf.Map{h.sessions, h.steps, h.slots, h.displays, h.tables} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}
