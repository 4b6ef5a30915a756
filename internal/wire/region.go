package wire

import "encoding/binary"

// Remote names bytes in a region of a process of the receiving NIC. The key proves that the
// region's owner has given it away.
//
//	 0  slot        2
//	 2  asker       2   slot of the asking process
//	 4  generation  4
//	 8  region      4
//	12  token       4   the asker's number for its operation
//	16  key         8
//	24  offset      8   in the region
//	32  length      8   bytes to put or get
type Remote struct {
	Slot   uint16
	Asker  uint16
	Gen    uint32
	Region uint32
	Token  uint32
	Key    uint64
	Offset uint64
	Length uint64
}

const remoteLen = 40

// In reports whether the bytes lie in a region of size bytes. The asker's process chose the
// numbers, so their sum may overflow. The check must not take such a sum for a small one.
func (m *Remote) In(size uint64) bool { return m.Offset <= size && m.Length <= size-m.Offset }

// Asks reports whether a Get only asks for the state of the process: it names no region and no
// byte. The NIC accepts it if the process lives. A NIC that does not know the question refuses
// with the reason "region" if the process lives.
func (m *Remote) Asks() bool { return m.Region == 0 && m.Key == 0 && m.Offset == 0 && m.Length == 0 }

func (m *Remote) put(b []byte) {
	_ = b[remoteLen-1]
	le := binary.LittleEndian
	le.PutUint16(b, m.Slot)
	le.PutUint16(b[2:], m.Asker)
	le.PutUint32(b[4:], m.Gen)
	le.PutUint32(b[8:], m.Region)
	le.PutUint32(b[12:], m.Token)
	le.PutUint64(b[16:], m.Key)
	le.PutUint64(b[24:], m.Offset)
	le.PutUint64(b[32:], m.Length)
}

func parseRemote(b []byte) Remote {
	_ = b[remoteLen-1]
	le := binary.LittleEndian
	return Remote{
		Slot: le.Uint16(b), Asker: le.Uint16(b[2:]), Gen: le.Uint32(b[4:]), Region: le.Uint32(b[8:]),
		Token: le.Uint32(b[12:]),
		Key:   le.Uint64(b[16:]), Offset: le.Uint64(b[24:]), Length: le.Uint64(b[32:]),
	}
}

// PutLen is the length of a Put's header, in bytes.
const PutLen = 8 + remoteLen

// PutPut writes the header of a Put with n payload bytes into b[:PutLen]. A short PUT is this
// record alone: its payload has n = Length bytes and its fragment id is 0. A long one is
// announced by PutLongPut.
//
//	 4  fragment id  4
//	 8  remote       40
//	48  payload
func PutPut(b []byte, id FragmentID, m *Remote, n int) {
	_ = b[PutLen-1]
	putRecord(b, TypePut, 0, PutLen+n)
	binary.LittleEndian.PutUint32(b[4:], uint32(id))
	m.put(b[8:])
}

// LongPutLen is the length of a Put that announces a long PUT, in bytes.
const LongPutLen = PutLen + 8

// PutLongPut writes the Put that announces a long PUT into b[:LongPutLen]. The PUT is permitted
// like a message, and follows in Chunks. ready is how many of its bytes are ready. As with a
// Request, the same record comes again when more are ready.
//
//	 4  fragment id  4
//	 8  remote       40
//	48  ready        8
func PutLongPut(b []byte, id FragmentID, m *Remote, ready uint64) {
	_ = b[LongPutLen-1]
	PutPut(b, id, m, LongPutLen-PutLen)
	binary.LittleEndian.PutUint64(b[PutLen:], ready)
}

// PutReady returns how many bytes of a long PUT are ready.
func (r Record) PutReady() uint64 { return binary.LittleEndian.Uint64(r[PutLen:LongPutLen]) }

// Put reads the header of a Put.
func (r Record) Put() (FragmentID, Remote) {
	return FragmentID(binary.LittleEndian.Uint32(r[4:])), parseRemote(r[8:])
}

// putOK reports whether a Put has one of its two shapes: whole, or the announcement of a long
// one.
func putOK(r Record) bool {
	id, m := r.Put()
	if id != 0 {
		return len(r) == LongPutLen && r.PutReady() <= m.Length
	}
	return m.Length == uint64(len(r)-PutLen)
}

// GetLen is the length of a Get, in bytes.
const GetLen = 16 + remoteLen

// PutGet writes a Get into b[:GetLen]. It asks the peer to send the bytes as Chunks with FlagGet
// and this fragment id, which the asker has chosen. The bytes below limit may leave at once, the
// rest as Permissions with FlagGet arrive.
//
//	 4  fragment id  4
//	 8  limit        8
//	16  remote       40
func PutGet(b []byte, id FragmentID, limit uint64, m *Remote) {
	_ = b[GetLen-1]
	putRecord(b, TypeGet, 0, GetLen)
	binary.LittleEndian.PutUint32(b[4:], uint32(id))
	binary.LittleEndian.PutUint64(b[8:], limit)
	m.put(b[16:])
}

// Get reads a Get.
func (r Record) Get() (id FragmentID, limit uint64, m Remote) {
	return FragmentID(binary.LittleEndian.Uint32(r[4:])), binary.LittleEndian.Uint64(r[8:]), parseRemote(r[16:])
}

func getOK(r Record) bool {
	id, _, _ := r.Get()
	return id != 0
}

// PutTable writes the header of a Table record of n payload bytes into b[:RecordLen]. Package
// internal/nic defines the format of the payload.
func PutTable(b []byte, n int) { putRecord(b, TypeTable, 0, RecordLen+n) }

// PutVoid writes a Void with a total length of n bytes, at least RecordLen, into b[:n].
func PutVoid(b []byte, n int) {
	_ = b[:n]
	putRecord(b, TypeVoid, 0, n)
	clear(b[RecordLen:n])
}
