package stream

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft"
)

// Addr is the address of one end of a stream. The address consists of a process and a service of
// this process, as in "app/3:http". At the end that called Dial, the address has the number of the
// stream in place of a service, as in "app/1:#7". Addr implements [net.Addr].
type Addr struct {
	Process weft.Name
	Service string // 1 to 255 bytes of any value
}

// Network returns "weft".
func (Addr) Network() string { return "weft" }

// String returns the address in the form PROCESS:SERVICE, which [ParseAddr] reads.
func (a Addr) String() string { return a.Process.String() + ":" + a.Service }

// ParseAddr parses an address of the form PROCESS:SERVICE, such as "app/0:http". It fails with
// [weft.ErrBadArgument] if s is malformed. For the host of a URL, use [ParseHost].
func ParseAddr(s string) (Addr, error) {
	name, service, ok := strings.Cut(s, ":")
	if !ok {
		return Addr{}, argument(fmt.Errorf(
			"stream: address %.80q has no service; expected PROCESS:SERVICE, as in app/0:http", s))
	}
	process, err := weft.ParseName(name)
	if err != nil {
		return Addr{}, argument(fmt.Errorf("stream: address %.80q: %w", s, err))
	}
	if err := checkService(service); err != nil {
		return Addr{}, err
	}
	return Addr{process, service}, nil
}

// checkService returns an error if s cannot be the name of a service.
func checkService(s string) error {
	if s == "" || len(s) > serviceBytes {
		return argument(fmt.Errorf("stream: service %.80q has %d bytes; expected 1 to %d", s, len(s), serviceBytes))
	}
	return nil
}
