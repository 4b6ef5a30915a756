package launch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// Every message of a job has the tag 1 and begins with its kind. Numbers are little-endian:
//
//	kind 1 │ fields of the kind │ bytes to the end
//
// A clock is the launcher's time in nanoseconds since the beginning of the job.
//
// A launcher sends the kinds below 0x40, and a keeper sends the others. The messages between two
// processes arrive in the order in which they were sent.
const tag = 1

// lifelineTag is the tag of a receive that no message matches. The receive fails when the sender
// has ended.
const lifelineTag = 2

type kind byte

const (
	kindStart   kind = 1 // clock 8 · more 1 · JSON Start, or a piece of it; more is 0 in the last
	kindStdin   kind = 2 // rank 4 · bytes; none: the end of the input
	kindSignal  kind = 3 // signal 4
	kindEnd     kind = 4 // clock 8 · grace in nanoseconds 8
	kindAck     kind = 5 // the launcher has all it needs
	kindPing    kind = 6 // clock 8: its delivery shows that the host lives
	kindRelease kind = 7 // more 1 · entries of the key-value space; more is 0: the barrier is over
	kindStage   kind = 8 // hosts 4 · JSON manifest
	kindAsk     kind = 9 // clock 8: the keeper answers at once

	kindOutput  kind = 0x40 // rank 4 · stream 1 · bytes
	kindWant    kind = 0x41 // rank 4
	kindState   kind = 0x42 // rank 4 · stopped 1
	kindEnded   kind = 0x43 // JSON Exit with the time of death
	kindGone    kind = 0x44 // JSON Summary
	kindBarrier kind = 0x45 // more 1 · entries of the key-value space; more is 0: the keeper waits
	kindAbort   kind = 0x46 // rank 4 · status 4 · text
	kindStaged  kind = 0x47 // JSON list of refusals; none: the host has all content
	kindEnding  kind = 0x48 // again 1 · text: why the keeper ends its ranks; again: may restart
	kindClock   kind = 0x49 // clock of the kindAsk 8 · the keeper's own clock 8
)

// Bounds of the variable parts, in bytes.
const (
	maxPiece     = 64 << 10 // of input, output, a manifest or a Start in one message
	maxJSON      = 64 << 10 // of an Exit, a Summary or a refusal
	maxEntries   = 32 << 10 // of the entries in one message
	maxAbortText = 1 << 10
	maxMessage   = 1 + 9 + maxPiece
)

// message is one message of the conversation.
type message interface {
	append(b []byte) []byte // appends the kind and the fields
}

type (
	startMsg struct {
		clock time.Duration
		more  bool
		data  []byte
	}
	stdinMsg struct {
		rank int
		data []byte // empty: the end of the input
	}
	signalMsg  struct{ signal int }
	endMsg     struct{ clock, grace time.Duration }
	ackMsg     struct{}
	pingMsg    struct{ clock time.Duration }
	askMsg     struct{ clock time.Duration }
	clockMsg   struct{ asked, clock time.Duration }
	releaseMsg struct {
		more    bool
		entries []entry
	}
	stageMsg struct {
		hosts    int
		manifest []byte
	}
	stagedMsg struct{ refusals []ctl.Refusal }
	outputMsg struct {
		rank, stream int
		data         []byte
	}
	wantMsg  struct{ rank int }
	stateMsg struct {
		rank    int
		stopped bool
	}
	barrierMsg struct {
		more    bool
		entries []entry
	}
	endingMsg struct {
		again bool
		text  string
	}
	abortMsg struct {
		rank, status int
		text         string
	}
)

// Summary is the last message of a keeper. All its ranks have ended, or none has started.
type Summary struct {
	// Failure tells why no rank has started, or why the keeper ended its ranks on its own.
	Failure string `json:"failure,omitempty"`
	// NotStarted means that Failure is why no rank could be started.
	NotStarted bool          `json:"not_started,omitempty"`
	Refusals   []ctl.Refusal `json:"refusals,omitempty"` // causes of Failure that have a cure
	Survivors  []Survivor    `json:"survivors,omitempty"`
	// Strangers counts datagrams to the keeper that no launcher of the job sent.
	Strangers int   `json:"strangers,omitempty"`
	Ahead     ahead `json:"ahead_ns,omitempty"`
}

func (m startMsg) append(b []byte) []byte {
	return append(append(putTime(b, kindStart, m.clock), putBool(m.more)), m.data...)
}

func (m stdinMsg) append(b []byte) []byte { return append(putRank(b, kindStdin, m.rank), m.data...) }

func (m signalMsg) append(b []byte) []byte { return putRank(b, kindSignal, m.signal) }

func (m endMsg) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(putTime(b, kindEnd, m.clock), uint64(m.grace))
}

func (ackMsg) append(b []byte) []byte    { return append(b, byte(kindAck)) }
func (m pingMsg) append(b []byte) []byte { return putTime(b, kindPing, m.clock) }

func (m askMsg) append(b []byte) []byte { return putTime(b, kindAsk, m.clock) }

func (m clockMsg) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(putTime(b, kindClock, m.asked), uint64(m.clock))
}

func (m releaseMsg) append(b []byte) []byte { return putEntries(b, kindRelease, m.more, m.entries) }
func (m barrierMsg) append(b []byte) []byte { return putEntries(b, kindBarrier, m.more, m.entries) }

func (m outputMsg) append(b []byte) []byte { return append(m.head(b), m.data...) }

// head appends the message without its data, so that the data need not be copied.
func (m outputMsg) head(b []byte) []byte {
	return append(putRank(b, kindOutput, m.rank), byte(m.stream))
}

func (m wantMsg) append(b []byte) []byte { return putRank(b, kindWant, m.rank) }

func (m stateMsg) append(b []byte) []byte {
	return append(putRank(b, kindState, m.rank), putBool(m.stopped))
}

func (m abortMsg) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(putRank(b, kindAbort, m.rank), uint32(int32(m.status)))
	return append(b, m.text[:min(len(m.text), maxAbortText)]...)
}

func (m stageMsg) append(b []byte) []byte {
	return append(putRank(b, kindStage, m.hosts), m.manifest...)
}

func (m stagedMsg) append(b []byte) []byte { return putJSON(b, kindStaged, m.refusals) }

func (m endingMsg) append(b []byte) []byte {
	return append(append(b, byte(kindEnding), putBool(m.again)), m.text...)
}

func (m *endedMsg) append(b []byte) []byte { return putJSON(b, kindEnded, m) }
func (m *Summary) append(b []byte) []byte  { return putJSON(b, kindGone, m) }

func putRank(b []byte, k kind, rank int) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(k)), uint32(int32(rank)))
}

func putTime(b []byte, k kind, t time.Duration) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(k)), uint64(t))
}

func putBool(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// putJSON appends a value that always has a JSON form.
func putJSON(b []byte, k kind, v any) []byte { return append(append(b, byte(k)), marshal(v)...) }

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("launch: %T has no JSON form: %v", v, err))
	}
	return text
}

// pieces returns the messages of a Start.
func (m *Start) pieces() (list []startMsg) {
	for text := marshal(m); ; {
		n := min(len(text), maxPiece)
		list = append(list, startMsg{more: n < len(text), data: text[:n]})
		if text = text[n:]; len(text) == 0 {
			return list
		}
	}
}

// parseStart reads the joined pieces of a Start.
func parseStart(text []byte) (*Start, error) {
	f := fields{b: text}
	s := readJSON(&f, MaxStartBytes, (*Start).check)
	if f.err != nil {
		return nil, fmt.Errorf("%w: start: %v", errMalformed, f.err)
	}
	return s, nil
}

// errMalformed is the cause of each error of parse.
var errMalformed = errors.New("malformed message")

// parse reads a message that a keeper (fromKeeper) or a launcher sent. The message keeps parts of
// b. parse checks everything that does not depend on the job: ranks are from 0 to
// limits.JobSize-1.
func parse(b []byte, fromKeeper bool) (message, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty", errMalformed)
	}
	k := kind(b[0])
	if (k >= kindOutput) != fromKeeper {
		return nil, fmt.Errorf("%w: kind %#x from the wrong side", errMalformed, b[0])
	}
	f := fields{b: b[1:]}
	m := f.parse(k)
	if f.err == nil && len(f.b) > 0 {
		f.fail("%d bytes too long", len(f.b))
	}
	if f.err != nil {
		return nil, fmt.Errorf("%w: kind %#x: %v", errMalformed, b[0], f.err)
	}
	return m, nil
}

// fields reads the fields of a message from the front of b. It keeps its first error.
type fields struct {
	b   []byte
	err error
}

func (f *fields) parse(k kind) message {
	switch k {
	case kindStart:
		return startMsg{f.duration(ever), f.flag(), f.rest(maxPiece)}
	case kindStdin:
		return stdinMsg{f.rank(), f.rest(maxPiece)}
	case kindSignal:
		return signalMsg{f.number(1, 64)}
	case kindEnd:
		return endMsg{f.duration(ever), f.duration(MaxGrace)}
	case kindAck:
		return ackMsg{}
	case kindPing:
		return pingMsg{f.duration(ever)}
	case kindAsk:
		return askMsg{f.duration(ever)}
	case kindClock:
		return clockMsg{f.duration(ever), f.duration(ever)}
	case kindRelease:
		return releaseMsg{f.flag(), f.entries()}
	case kindStage:
		return stageMsg{f.number(1, limits.JobHosts), f.rest(maxPiece)}
	case kindStaged:
		return stagedMsg{*readJSON(f, maxJSON, func(*[]ctl.Refusal) error { return nil })}
	case kindOutput:
		return outputMsg{f.rank(), int(f.byte(Stdout, Stderr)), f.rest(maxPiece)}
	case kindWant:
		return wantMsg{f.rank()}
	case kindState:
		return stateMsg{f.rank(), f.flag()}
	case kindEnded:
		return readJSON(f, maxJSON, (*endedMsg).check)
	case kindGone:
		return readJSON(f, maxJSON, (*Summary).check)
	case kindBarrier:
		return barrierMsg{f.flag(), f.entries()}
	case kindEnding:
		return endingMsg{f.flag(), string(f.rest(maxAbortText))}
	case kindAbort:
		return abortMsg{f.rank(), f.number(-1<<31, 1<<31-1), string(f.rest(maxAbortText))}
	}
	f.fail("unknown")
	return nil
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// take returns the next n bytes, or nil after an error.
func (f *fields) take(n int) []byte {
	if f.err != nil || len(f.b) < n {
		f.fail("%d bytes are missing", n-len(f.b))
		return nil
	}
	part := f.b[:n]
	f.b = f.b[n:]
	return part
}

func (f *fields) rank() int { return f.number(0, limits.JobSize-1) }

func (f *fields) number(low, high int) int {
	part := f.take(4)
	if part == nil {
		return low
	}
	n := int(int32(binary.LittleEndian.Uint32(part)))
	if n < low || n > high {
		f.fail("%d; expected %d to %d", n, low, high)
	}
	return n
}

func (f *fields) duration(most time.Duration) time.Duration {
	part := f.take(8)
	if part == nil {
		return 0
	}
	d := time.Duration(binary.LittleEndian.Uint64(part))
	if d < 0 || d > most {
		f.fail("%d ns; expected 0 to %v", int64(d), most)
	}
	return d
}

func (f *fields) byte(low, high byte) byte {
	part := f.take(1)
	if part == nil {
		return low
	}
	if part[0] < low || part[0] > high {
		f.fail("%d; expected %d to %d", part[0], low, high)
	}
	return part[0]
}

func (f *fields) flag() bool { return f.byte(0, 1) == 1 }

// rest returns all remaining bytes.
func (f *fields) rest(most int) []byte {
	if len(f.b) > most {
		f.fail("%d bytes; expected at most %d", len(f.b), most)
		return nil
	}
	return f.take(len(f.b))
}

// readJSON reads a JSON object to the end of the message, and refuses unknown fields and trailing
// bytes.
func readJSON[T any](f *fields, most int, check func(*T) error) *T {
	v, text := new(T), f.rest(most)
	if f.err != nil {
		return v
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		f.fail("%v", err)
	} else if _, err := d.Token(); !errors.Is(err, io.EOF) {
		f.fail("bytes after the JSON object")
	} else if err := check(v); err != nil {
		f.fail("%v", err)
	}
	return v
}

// check refuses a Start that no launcher sends.
func (m *Start) check() error {
	switch {
	case len(m.Argv) == 0 || m.Program == "" || m.Dir == "":
		return errors.New("no program, arguments or directory")
	case len(m.Ranks) == 0 || m.Size < 1 || m.Size > limits.JobSize:
		return fmt.Errorf("%d ranks of %d; expected 1 to %d", len(m.Ranks), m.Size, limits.JobSize)
	case !m.Notices.check():
		return errors.New("a port for notices without a key")
	case m.Restart < 0 || m.Grace < 0 || time.Duration(m.Grace) > MaxGrace || m.MemoryBytes < 0:
		return fmt.Errorf("restart %d, grace %d ns, memory %d bytes", m.Restart, m.Grace, m.MemoryBytes)
	}
	for i, r := range m.Ranks {
		if r < 0 || r >= m.Size || i > 0 && r <= m.Ranks[i-1] {
			return fmt.Errorf("rank %d of %d; expected ascending ranks", r, m.Size)
		}
	}
	return nil
}

// check refuses an end of a rank that no keeper sends.
func (m *endedMsg) check() error {
	switch {
	case m.Rank < 0 || m.Rank >= limits.JobSize:
		return fmt.Errorf("rank %d; expected 0 to %d", m.Rank, limits.JobSize-1)
	case m.Status < 0 || m.Status > 255 || m.Signal < 0 || m.Signal > 64:
		return fmt.Errorf("status %d, signal %d; expected 0 to 255 and 0 to 64", m.Status, m.Signal)
	case m.DiedAt < 0 || m.DiedAt > ever || !m.Ahead.check():
		return fmt.Errorf("death after %d ns with a clock ahead by %d ns; expected at most %v", m.DiedAt, m.Ahead, ever)
	case len(m.Cause) > maxAbortText || len(m.OOM) > maxAbortText:
		return fmt.Errorf("a cause of %d bytes; expected at most %d", max(len(m.Cause), len(m.OOM)), maxAbortText)
	}
	return nil
}

// check refuses a Summary that no keeper sends. maxJSON bounds the lists.
func (m *Summary) check() error {
	if !m.Ahead.check() {
		return fmt.Errorf("a clock ahead by %d ns; expected at most %v", m.Ahead, ever)
	}
	if m.Strangers < 0 {
		return fmt.Errorf("%d strangers; expected 0 or more", m.Strangers)
	}
	if len(m.Failure) > maxAbortText {
		return fmt.Errorf("a failure of %d bytes; expected at most %d", len(m.Failure), maxAbortText)
	}
	return nil
}
