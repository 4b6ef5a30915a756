package stream

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weftnet/weft"
)

// URLs, SOCKS5 and HTTP CONNECT name a host and a port, never a process. This file maps a host and
// a port to a service of a process:
//
//	http.0.web.weft, any port    web/0:http
//	0.web.weft, port 80          web/0:80

// hostEnding is the ending of host names that stand for services.
const hostEnding = ".weft"

// Host returns the host name that stands for the address in a URL: "http.0.web.weft" for
// web/0:http. Host returns "" if the process has no valid name. Host also returns "" if the service
// contains any character other than ASCII letters, ASCII digits and "-_~!$&'()*+,;=".
func (a Addr) Host() string {
	host := fmt.Sprintf("%s.%d.%s%s", a.Service, a.Process.Index, a.Process.App, hostEnding)
	if parsed, err := ParseHost(host, 0); err != nil || parsed != a {
		return ""
	}
	return host
}

// ParseHost returns the address that a host name and a port stand for. If a host has the form
// SERVICE.INDEX.APP.weft, the host contains the service, and ParseHost ignores the port. If a host
// has the form INDEX.APP.weft, the port number is the name of the service: the host 0.web.weft with
// port 80 stands for web/0:80. If a host has both forms, ParseHost uses the first form: the host
// 80.0.web.weft stands for web/0:80 with any port. APP may contain dots.
//
// The host may omit the ending .weft, and may end with one dot. Only SERVICE is case-sensitive.
// ParseHost fails with [weft.ErrBadArgument] if the host has neither form, or if the service
// contains a character that [Addr.Host] does not permit.
func ParseHost(host string, port uint16) (Addr, error) {
	wrong := fmt.Errorf("stream: host %.80q names no service; "+
		"expected SERVICE.INDEX.APP.weft, as in http.0.web.weft for web/0:http", host)
	name := strings.TrimSuffix(host, ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return Addr{}, argument(wrong)
	}
	if i := len(name) - len(hostEnding); i >= 0 && strings.EqualFold(name[i:], hostEnding) {
		name = name[:i]
	}
	service := strconv.Itoa(int(port))
	first, rest, _ := strings.Cut(name, ".")
	index, app, _ := strings.Cut(rest, ".")
	if isIndex(first) && (app == "" || !isIndex(index)) {
		index, app = first, rest
	} else {
		service = first
	}
	if service == "" || index == "" || app == "" || strings.ContainsFunc(service, isNoURLRune) {
		return Addr{}, argument(wrong)
	}
	process, err := weft.ParseName(strings.ToLower(app) + "/" + index)
	if err == nil {
		err = checkService(service)
	}
	if err != nil {
		return Addr{}, argument(fmt.Errorf("%w: %w", wrong, err))
	}
	return Addr{process, service}, nil
}

// parseTarget parses the address that Dial takes: PROCESS:SERVICE, or HOST:PORT with a host that
// ParseHost knows. A host has no slash, and the name of a process has one.
func parseTarget(s string) (Addr, error) {
	if name, _, _ := strings.Cut(s, ":"); strings.Contains(name, "/") {
		return ParseAddr(s)
	}
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return Addr{}, argument(fmt.Errorf("stream: address %.80q: "+
			"expected PROCESS:SERVICE, as in app/0:http, or HOST:PORT, as in http.0.app.weft:80", s))
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return Addr{}, argument(fmt.Errorf("stream: address %.80q: port %.80q; "+
			"expected a number from 0 to 65535, as in http.0.app.weft:80", s, text))
	}
	return ParseHost(host, uint16(port))
}

// isIndex reports whether a label of a host is the index of a process.
func isIndex(label string) bool {
	_, err := strconv.ParseUint(label, 10, 32)
	return err == nil
}

// isNoURLRune reports whether r cannot stand in the host of a URL. Package net/http translates
// letters beyond ASCII, so a request would go to another service.
func isNoURLRune(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("-_~!$&'()*+,;=", r)
}
