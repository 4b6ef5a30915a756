package vni

import (
	"encoding/base32"
	"encoding/binary"

	"github.com/weftnet/weft/internal/limits"
)

// A group's key is a Name. The members know the application, or derive it:
//
//	                 application                     index
//	joined by name   the name that the members gave  the epoch, below 1<<31
//	part of a group  the leader, part of a count     1<<31 | rest of the count | epoch
//
// The leader of a part is its member with the lowest name. It counts its splits, and no other
// process has its address, so no two parts have the same key. The top bit distinguishes them from
// groups that were joined by name.
//
//	application: 24 characters, 15 bytes  NIC 8, generation 4, slot-1 12 bits, count bits 29..18
//	index: bit 31 is 1                    count bits 17..0, epoch 13 bits

const (
	partKey    = 1 << 31
	epochBits  = 13
	indexCount = 18 // bits of the count in the index
	slotBits   = 12

	// PartsCounted is the number of parts of groups that one process may lead in its life.
	PartsCounted = 1 << (indexCount + 24 - slotBits)
)

var _ [1<<slotBits - limits.MaxProcesses]struct{} // slots are 1 to MaxProcesses

var keyText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// PartKey returns the key of a part of a group: the count-th that leader leads, with count below
// PartsCounted.
func PartKey(leader Address, count uint32) (n Name) {
	var b [15]byte
	binary.BigEndian.PutUint64(b[:], leader.NIC)
	binary.BigEndian.PutUint32(b[8:], leader.Gen)
	count &= PartsCounted - 1
	rest := uint32(leader.Slot-1)<<(24-slotBits) | count>>indexCount
	b[12], b[13], b[14] = byte(rest>>16), byte(rest>>8), byte(rest)
	keyText.Encode(n.App[:], b[:])
	n.Index = partKey | count&(1<<indexCount-1)<<epochBits
	return n
}

// IsPart reports whether a group's key is that of a part of another group.
func IsPart(key *Name) bool { return key.Index&partKey != 0 }

// Epoch returns the number of times that the group of a key has shrunk.
func Epoch(key *Name) uint32 {
	if IsPart(key) {
		return key.Index & (1<<epochBits - 1)
	}
	return key.Index
}

// NextEpoch returns the key of the group of a later epoch; ok is false if there is none.
func NextEpoch(key Name) (next Name, ok bool) {
	next = key
	next.Index++
	return next, next.Index != 0 && SameGroup(&key, &next)
}

// SameGroup reports whether two keys belong to the same group, in any epochs.
func SameGroup(a, b *Name) bool {
	if a.App != b.App || IsPart(a) != IsPart(b) {
		return false
	}
	return !IsPart(a) || a.Index>>epochBits == b.Index>>epochBits
}
