package nbd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// job is a request that a worker carries out, and its memory: room for the header of a reply,
// followed by room for data.
type job struct {
	n *conn
	request
	head     [requestLen]byte
	buf      []byte
	reserved int
}

// headroom is room for the header of a reply. The longest header is that of a chunk of data, with
// its offset.
const headroom = chunkLen + 8

// kept is the amount of memory that a worker keeps from one request to the next.
const kept = 256 << 10

// reserve makes room for n bytes of data.
func (j *job) reserve(n int) {
	j.n.s.budget.take(j.n, n)
	j.room(n)
}

// room is like reserve, but the budget has already been taken.
func (j *job) room(n int) {
	j.reserved = n
	if cap(j.buf) < headroom+n {
		j.buf = make([]byte, headroom+n)
	}
	j.buf = j.buf[:headroom+n]
}

func (j *job) data() []byte { return j.buf[headroom:] }

// release returns the memory that reserve took.
func (j *job) release() {
	if j.reserved > 0 {
		j.n.s.budget.give(j.n, j.reserved)
		j.reserved = 0
	}
	if cap(j.buf) > kept {
		j.buf = nil
	}
}

// fault describes how a request failed: an error number of the protocol, and a text.
type fault struct {
	errno
	text string
}

func faultf(e errno, format string, args ...any) *fault {
	return &fault{e, fmt.Sprintf(format, args...)}
}

// do carries out a request and replies. It returns errors of the connection.
func (j *job) do(ctx context.Context) error {
	if f := j.check(); f != nil {
		return j.refuse(f)
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(whole, j.n.s.cfg.Timeout)
	defer func() { cancel() }()
	again := func() context.Context { // the time of the request begins again: part of it is done
		cancel()
		ctx, cancel = context.WithTimeout(whole, j.n.s.cfg.Timeout)
		return ctx
	}
	offset, n := int64(j.offset), int64(j.length)
	dev := j.n.s.cfg.Device
	var err error
	switch j.command {
	case cmdRead:
		j.reserve(int(n))
		var got int
		if got, err = dev.ReadAtContext(ctx, j.data(), offset); err == nil || errors.Is(err, io.EOF) && got == int(n) {
			return j.replyData()
		}
	case cmdWrite:
		_, err = dev.WriteAtContext(ctx, j.data(), offset)
	case cmdFlush:
		err = dev.Flush(ctx)
	case cmdTrim:
		err = inParts(offset, n, func(offset, n int64) error { return dev.Discard(again(), offset, n) })
	case cmdWriteZeroes:
		err = j.writeZeroes(again, offset, n)
	case cmdBlockStatus:
		var pieces []byte
		if pieces, err = j.blockStatus(offset, n); err == nil {
			return j.replyChunk(chunkBlockStatus, pieces)
		}
	}
	if err == nil {
		return j.replyDone()
	}
	return j.failed(whole, ctx, err)
}

// failed returns the fault of a device error. It tells the end of the connection from the timeout
// of the request.
func (j *job) failed(whole, ctx context.Context, err error) error {
	switch {
	case whole.Err() != nil:
		return j.refuse(faultf(errShutdown, "the server ends"))
	case j.n.s.cfg.Full(err):
		return j.refuse(faultf(errNoSpace, "%v", err))
	case ctx.Err() != nil:
		err = fmt.Errorf("not done within %v: %w", j.n.s.cfg.Timeout, err)
	}
	j.n.s.cfg.Log(fmt.Sprintf("command %d of %d bytes at %d fails: %v", j.command, j.length, j.offset, err))
	return j.refuse(faultf(errIO, "%v", err))
}

// flagsOf holds the flags that each command may have.
var flagsOf = map[command]uint16{
	cmdRead: cmdDF | cmdFUA, cmdWrite: cmdFUA, cmdFlush: cmdFUA, cmdTrim: cmdFUA,
	cmdWriteZeroes: cmdFUA | cmdNoHole | cmdFastZero, cmdBlockStatus: cmdReqOne | cmdFUA,
}

// check returns the fault of a request before any of it is carried out, or nil.
func (j *job) check() *fault {
	size := uint64(j.n.s.cfg.Device.Size())
	flags, known := flagsOf[j.command]
	writes := j.command == cmdWrite || j.command == cmdTrim || j.command == cmdWriteZeroes
	switch {
	case !known:
		return faultf(errInvalid, "there is no command %d", j.command)
	case j.flags&^flags != 0:
		return faultf(errInvalid, "command %d with flags %#x; expected some of %#x", j.command, j.flags, flags)
	case j.flags&cmdDF != 0 && !j.n.structured:
		return faultf(errInvalid, "DF without structured replies")
	case j.command == cmdBlockStatus && !j.n.status:
		return faultf(errInvalid, "BLOCK_STATUS without %s", allocation)
	case j.command == cmdFlush && (j.offset != 0 || j.length != 0):
		return faultf(errInvalid, "FLUSH of %d bytes at %d; expected 0 at 0", j.length, j.offset)
	case j.command == cmdBlockStatus && j.length == 0:
		return faultf(errInvalid, "BLOCK_STATUS of 0 bytes")
	case j.command == cmdRead && j.length > maxRequest:
		return faultf(errInvalid, "a read of %d bytes; at most %d", j.length, maxRequest)
	case writes && j.n.s.cfg.ReadOnly:
		return faultf(errPermission, "the export is read-only")
	// Writing the zeros takes as long as any write.
	case j.flags&(cmdNoHole|cmdFastZero) == cmdNoHole|cmdFastZero:
		return faultf(errUnsupported, "WRITE_ZEROES that is fast and leaves no hole: a hole is what is fast here")
	case j.offset > size || uint64(j.length) > size-j.offset:
		e := errInvalid
		if j.command == cmdWrite || j.command == cmdWriteZeroes {
			e = errNoSpace
		}
		return faultf(e, "%d bytes at %d; the device has %d", j.length, j.offset, size)
	}
	return nil
}

// zeros is one part of the data that WRITE_ZEROES writes if its client wants no holes.
var zeros [1 << 20]byte

// inParts calls do for each part of a range of the device. A part has the length of zeros. A
// request may cover gigabytes, so each part has its own timeout.
func inParts(offset, n int64, do func(offset, n int64) error) error {
	for n > 0 {
		part := min(n, int64(len(zeros))-offset%int64(len(zeros)))
		if err := do(offset, part); err != nil {
			return err
		}
		offset, n = offset+part, n-part
	}
	return nil
}

// writeZeroes makes a hole, which takes no time, unless the client wants to keep the room.
func (j *job) writeZeroes(again func() context.Context, offset, n int64) error {
	return inParts(offset, n, func(offset, n int64) error {
		if j.flags&cmdNoHole == 0 {
			return j.n.s.cfg.Device.Discard(again(), offset, n)
		}
		_, err := j.n.s.cfg.Device.WriteAtContext(again(), zeros[:n], offset)
		return err
	})
}

// maxPieces is the maximum number of pieces in a reply to BLOCK_STATUS. The client asks again for
// the rest.
const maxPieces = 4096

// blockStatus returns a description of the pieces of a range that take room.
func (j *job) blockStatus(offset, n int64) ([]byte, error) {
	be := binary.BigEndian
	b := be.AppendUint32(nil, allocationID)
	var length, last uint32
	pieces := 0
	err := j.n.s.cfg.Device.Written(offset, n, func(_, n int64, written bool) bool {
		state := uint32(stateHole | stateZero)
		if written {
			state = 0
		}
		if pieces > 0 && state == last {
			length += uint32(n)
			return true
		}
		if pieces > 0 {
			b = be.AppendUint32(be.AppendUint32(b, length), last)
		}
		if pieces == maxPieces || pieces == 1 && j.flags&cmdReqOne != 0 {
			length = 0
			return false
		}
		pieces, length, last = pieces+1, uint32(n), state
		return true
	})
	if length > 0 {
		b = be.AppendUint32(be.AppendUint32(b, length), last)
	}
	return b, err
}

// replyDone reports success.
func (j *job) replyDone() error {
	var b [simpleLen]byte
	putSimple(b[:], 0, j.cookie)
	return j.n.send(b[:])
}

// replyData sends the data of a read.
func (j *job) replyData() error { return j.n.send(j.dataReply()) }

// dataReply returns the reply with the data of a read, in the memory of the data.
func (j *job) dataReply() []byte {
	if !j.n.structured {
		b := j.buf[headroom-simpleLen:]
		putSimple(b, 0, j.cookie)
		return b
	}
	if j.length == 0 {
		putChunk(j.buf, 0, j.cookie, 0)
		return j.buf[:chunkLen]
	}
	putChunk(j.buf, chunkData, j.cookie, 8+len(j.data()))
	binary.BigEndian.PutUint64(j.buf[chunkLen:], j.offset)
	return j.buf
}

// replyChunk sends one chunk.
func (j *job) replyChunk(kind uint16, payload []byte) error {
	b := make([]byte, chunkLen, chunkLen+len(payload))
	putChunk(b, kind, j.cookie, len(payload))
	return j.n.send(append(b, payload...))
}

// refuse reports that a request failed. If the client supports that, the reply includes the
// reason.
func (j *job) refuse(f *fault) error {
	if !j.n.structured {
		var b [simpleLen]byte
		putSimple(b[:], f.errno, j.cookie)
		return j.n.send(b[:])
	}
	be := binary.BigEndian
	b := be.AppendUint32(nil, uint32(f.errno))
	b = be.AppendUint16(b, uint16(len(f.text)))
	return j.replyChunk(chunkError, append(b, f.text...))
}
