package daemon

import (
	"os"

	"github.com/weftnet/weft/internal/trust"
)

// live holds the settings of a link that a reload changes. A reader loads it once for each request,
// so it sees one configuration.
type live struct {
	allowUIDs, allowGIDs, programUIDs []int

	slots       int
	mode        os.FileMode // of the socket
	revocations string      // path of the file
	keys        fabricKeys
}

// fabricKeys holds the fabric keys of a NIC, and where they were found.
type fabricKeys struct {
	keys []trust.FabricKey
	from string
	note string // for the log; may be empty
}

// live returns the part of s that a reload changes, with the given fabric keys.
func (s *settings) live(keys fabricKeys) *live {
	c := &s.config
	return &live{allowUIDs: c.AllowUIDs, allowGIDs: c.AllowGIDs, programUIDs: c.ProgramUIDs, slots: c.slots(),
		mode: c.socketMode(), revocations: s.trusted.revocations, keys: keys}
}
