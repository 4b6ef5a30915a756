package stream

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft"
)

// Addr is one end of a stream: a process and one of its services, written "app/3:http". The end that has dialled has a number in place of a
// service, as in "app/1:#7".
type Addr struct {
	Process weft.Name
	Service string
}

// Network is "weft".
func (Addr) Network() string { return "weft" }

func (a Addr) String() string { return a.Process.String() + ":" + a.Service }

// ParseAddr reads what [Addr.String] writes.
func ParseAddr(s string) (a Addr, err error) {
	name, service, ok := strings.Cut(s, ":")
	if !ok {
		return a, fmt.Errorf("stream: address %q has no service; expected PROCESS:SERVICE, as in app/0:http", s)
	}
	if a.Process, err = weft.ParseName(name); err != nil {
		return Addr{}, fmt.Errorf("stream: address %q: %w", s, err)
	}
	if err := checkService(service); err != nil {
		return Addr{}, err
	}
	a.Service = service
	return a, nil
}

func checkService(s string) error {
	if s == "" || len(s) > serviceBytes {
		return fmt.Errorf("stream: service %q has %d bytes; expected 1 to %d", s, len(s), serviceBytes)
	}
	return nil
}
