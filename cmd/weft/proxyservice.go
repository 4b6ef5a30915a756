package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	fabric "github.com/weftnet/weft"
)

// proxyService is the service of the fabric that a host name and a port mean to a client that can only say those:
//
//	http.0.web.weft, any port    web/0:http
//	0.web.weft, port 80          web/0:80
//
// The ending .weft may be left out, and a dot may follow, as in names of hosts. Case means something in the name of a service alone. Where the first
// two of three labels and more are numbers, the first is a service: 80.0.web.weft is web/0:80 at any port.
func proxyService(host string, port uint16) (address string, err error) {
	wrong := fmt.Errorf("%.80q is no name of a service; expected SERVICE.INDEX.APP.weft, as http.0.web.weft for web/0:http", host)
	name := strings.TrimSuffix(host, ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return "", wrong
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
	if service == "" || index == "" || app == "" {
		return "", wrong
	}
	process, err := fabric.ParseName(strings.ToLower(app) + "/" + index)
	if err != nil {
		return "", errors.Join(wrong, err)
	}
	return process.String() + ":" + service, nil
}

// hostEnding ends names of hosts that are services.
const hostEnding = ".weft"

// isIndex reports whether a label is the index of a process.
func isIndex(label string) bool {
	_, err := strconv.ParseUint(label, 10, 32)
	return err == nil
}
