package registry

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// NICID is the id of a NIC: 64 bits, written as eight decimal octets, the most significant first (decision 1).
// 0 is no NIC's.
//
//	0:0:0:96:221:127:255:140  =  0x0000_0060_dd7f_ff8c
type NICID uint64

// ParseNICID reads the notation of eight decimal octets.
func ParseNICID(s string) (NICID, error) {
	octets := strings.Split(s, ":")
	if len(octets) != 8 {
		return 0, fmt.Errorf("NIC id %q: expected eight decimal octets, such as 0:0:0:96:221:127:255:140", s)
	}
	var b [8]byte
	for i, o := range octets {
		n, err := strconv.ParseUint(o, 10, 8)
		if err != nil || strconv.FormatUint(n, 10) != o { // neither signs nor leading zeros: one id, one text
			return 0, fmt.Errorf("NIC id %q: octet %q; expected eight decimal octets from 0 to 255", s, o)
		}
		b[i] = byte(n)
	}
	id := NICID(binary.BigEndian.Uint64(b[:]))
	if id == 0 {
		return 0, fmt.Errorf("NIC id %q is no NIC's; expected another than zero", s)
	}
	return id, nil
}

func (id NICID) String() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(id))
	s := make([]byte, 0, 31)
	for i, o := range b {
		if i > 0 {
			s = append(s, ':')
		}
		s = strconv.AppendUint(s, uint64(o), 10)
	}
	return string(s)
}

// MarshalText and UnmarshalText make files and JSON use the notation.
func (id NICID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *NICID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseNICID(string(b))
	return err
}
