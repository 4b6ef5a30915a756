package nbd

import (
	"encoding/binary"
	"fmt"
)

// The magic numbers.
const (
	magicServer  = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption  = 0x49484156454f5054 // "IHAVEOPT"
	magicReply   = 0x3e889045565a9    // of a reply to an option
	magicRequest = 0x25609513
	magicSimple  = 0x67446698
	magicChunk   = 0x668e33ef
)

// Flags of the handshake, the server's and the client's.
const (
	flagFixedNewstyle = 1 << 0
	flagNoZeroes      = 1 << 1
)

// option is an option that a client sends before the transmission.
type option uint32

const (
	optExportName      option = 1
	optAbort           option = 2
	optList            option = 3
	optStartTLS        option = 5
	optInfo            option = 6
	optGo              option = 7
	optStructuredReply option = 8
	optListMetaContext option = 9
	optSetMetaContext  option = 10
)

// answer is a reply to an option.
type answer uint32

const (
	repAck         answer = 1
	repServer      answer = 2
	repInfo        answer = 3
	repMetaContext answer = 4

	repErrUnsupported answer = 1<<31 | 1
	repErrPolicy      answer = 1<<31 | 2
	repErrInvalid     answer = 1<<31 | 3
	repErrTLSRequired answer = 1<<31 | 5
	repErrUnknown     answer = 1<<31 | 6
	repErrTooBig      answer = 1<<31 | 9
)

// Types of information about an export.
const (
	infoExport      = 0
	infoName        = 1
	infoDescription = 2
	infoBlockSize   = 3
)

// Flags of a server's abilities.
const (
	canHasFlags    = 1 << 0
	canNotWrite    = 1 << 1
	canFlush       = 1 << 2
	canFUA         = 1 << 3
	canTrim        = 1 << 5
	canWriteZeroes = 1 << 6
	canDF          = 1 << 7
	canMultiConn   = 1 << 8
	canFastZero    = 1 << 11
)

// command is the command of a request.
type command uint16

const (
	cmdRead        command = 0
	cmdWrite       command = 1
	cmdDisconnect  command = 2
	cmdFlush       command = 3
	cmdTrim        command = 4
	cmdWriteZeroes command = 6
	cmdBlockStatus command = 7
)

// Flags of a request.
const (
	cmdFUA      = 1 << 0
	cmdNoHole   = 1 << 1
	cmdDF       = 1 << 2
	cmdReqOne   = 1 << 3
	cmdFastZero = 1 << 4
)

// errno is an error number of the protocol.
type errno uint32

const (
	errPermission  errno = 1
	errIO          errno = 5
	errInvalid     errno = 22
	errNoSpace     errno = 28
	errUnsupported errno = 95
	errShutdown    errno = 108
)

// Chunks of a structured reply.
const (
	chunkDone = 1 << 0 // flag: this is the last chunk

	chunkData        = 1
	chunkBlockStatus = 5
	chunkError       = 1<<15 | 1
)

// Flags of base:allocation: the part takes no room, and the part reads as zeros.
const (
	stateHole = 1 << 0
	stateZero = 1 << 1
)

const allocation = "base:allocation"

// allocationID is the number of that context in replies.
const allocationID = 1

const (
	requestLen = 28
	simpleLen  = 16
	chunkLen   = 20
)

// request is a request of a client, without the data of a WRITE.
//
//	 0  magic    4
//	 4  flags    2
//	 6  command  2
//	 8  cookie   8  chosen by the client; the reply repeats it
//	16  offset   8
//	24  length   4
type request struct {
	flags   uint16
	command command
	cookie  uint64
	offset  uint64
	length  uint32
}

func (r *request) parse(b []byte) error {
	be := binary.BigEndian
	if len(b) != requestLen {
		return fmt.Errorf("%w: a request of %d bytes, expected %d", errProtocol, len(b), requestLen)
	}
	if m := be.Uint32(b); m != magicRequest {
		return fmt.Errorf("%w: a request begins with %#x, expected %#x", errProtocol, m, uint32(magicRequest))
	}
	*r = request{flags: be.Uint16(b[4:]), command: command(be.Uint16(b[6:])), cookie: be.Uint64(b[8:]),
		offset: be.Uint64(b[16:]), length: be.Uint32(b[24:])}
	return nil
}

// putSimple writes a simple reply.
func putSimple(b []byte, e errno, cookie uint64) {
	be := binary.BigEndian
	be.PutUint32(b, magicSimple)
	be.PutUint32(b[4:], uint32(e))
	be.PutUint64(b[8:], cookie)
}

// putChunk writes the header of a chunk, before a payload of n bytes. All replies of this server
// have one chunk.
func putChunk(b []byte, kind uint16, cookie uint64, n int) {
	be := binary.BigEndian
	be.PutUint32(b, magicChunk)
	be.PutUint16(b[4:], chunkDone)
	be.PutUint16(b[6:], kind)
	be.PutUint64(b[8:], cookie)
	be.PutUint32(b[16:], uint32(n))
}

// fields reads the data of an option field by field. If the data is too short, fields notes that
// and reads zeros.
type fields struct {
	b     []byte
	short bool
}

func (f *fields) take(n uint32) []byte {
	if uint64(n) > uint64(len(f.b)) {
		f.short = true
		return nil
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) uint16() uint16 {
	if b := f.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (f *fields) uint32() uint32 {
	if b := f.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// text returns a string that follows its length.
func (f *fields) text() string { return string(f.take(f.uint32())) }

// whole reports whether the data had exactly the fields that were read.
func (f *fields) whole() bool { return !f.short && len(f.b) == 0 }
