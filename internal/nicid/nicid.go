// Package nicid defines the ids of NICs and their only notation:
//
//	0:0:0:96:221:127:255:140  =  0x0000_0060_dd7f_ff8c
package nicid

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	_ "github.com/weftnet/weft/internal/target" // does not build where Weft cannot run
)

// ID is the id of a NIC: 64 bits, written as eight decimal octets, the most significant first
// (decision 1). No NIC has the id 0.
type ID uint64

// Parse reads the notation of eight decimal octets.
func Parse(s string) (ID, error) {
	octets := strings.Split(s, ":")
	if len(octets) != 8 {
		return 0, fmt.Errorf("NIC id %q: expected eight decimal octets, such as 0:0:0:96:221:127:255:140", s)
	}
	var b [8]byte
	for i, o := range octets {
		n, err := strconv.ParseUint(o, 10, 8)
		// No signs or leading zeros are allowed, so each id has one text.
		if err != nil || strconv.FormatUint(n, 10) != o {
			return 0, fmt.Errorf("NIC id %q: octet %q; expected eight decimal octets from 0 to 255", s, o)
		}
		b[i] = byte(n)
	}
	id := ID(binary.BigEndian.Uint64(b[:]))
	if id == 0 {
		return 0, fmt.Errorf("NIC id %q is no NIC's; expected another than zero", s)
	}
	return id, nil
}

func (id ID) String() string {
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

// MarshalText writes the notation. So files and JSON use it.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = Parse(string(b))
	return err
}
