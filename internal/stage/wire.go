package stage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// port is the port of staging in the launcher and in the keepers.
const port uint16 = 0xff02

// code is the first byte of a reply.
type code byte

const (
	here    code = iota + 1 // the chunk follows
	unknown                 // the process stages another file, or the chunk does not exist
	failed                  // the process does not get the file itself
	busy                    // the process answers as many requests as it can; ask again
)

// String returns the code as a part of a sentence about a process.
func (c code) String() string {
	switch c {
	case unknown:
		return "stages another file"
	case failed:
		return "has not got the file"
	case busy:
		return "is busy"
	}
	return fmt.Sprintf("sends code %d", byte(c))
}

const requestBytes = sha256.Size + 4

// replyBytes returns the length of the longest reply.
func (m *Manifest) replyBytes() int64 { return 1 + m.chunkBytes() }

// putRequest writes the request for a chunk.
func (m *Manifest) putRequest(b *[requestBytes]byte, chunk int) {
	_, _ = hex.Decode(b[:], []byte(m.SHA256))
	binary.LittleEndian.PutUint32(b[sha256.Size:], uint32(chunk))
}

// parseRequest returns the chunk that a request asks for. ok is false if the request is malformed
// or about another file.
func (m *Manifest) parseRequest(b []byte) (chunk int, ok bool) {
	if len(b) != requestBytes || hex.EncodeToString(b[:sha256.Size]) != m.SHA256 {
		return 0, false
	}
	n := binary.LittleEndian.Uint32(b[sha256.Size:])
	return int(n), uint64(n) < uint64(m.Chunks())
}
