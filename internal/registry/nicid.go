package registry

import "github.com/weftnet/weft/internal/nicid"

// NICID is the id of a NIC, written as eight decimal octets.
type NICID = nicid.ID

// ParseNICID reads the notation of eight decimal octets.
func ParseNICID(s string) (NICID, error) { return nicid.Parse(s) }
