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
// The ending .weft may be left out.
func proxyService(host string, port uint16) (address string, err error) {
	wrong := fmt.Errorf("%.80q is no name of a service; expected SERVICE.INDEX.APP.weft, as http.0.web.weft for web/0:http", host)
	labels := strings.SplitN(strings.TrimSuffix(host, ".weft"), ".", 3)
	service := strconv.Itoa(int(port))
	if _, err := strconv.ParseUint(labels[0], 10, 32); err != nil {
		service, labels = labels[0], labels[1:]
	} else {
		labels = strings.SplitN(strings.TrimSuffix(host, ".weft"), ".", 2)
	}
	if _, err := netip.ParseAddr(host); err == nil || len(labels) != 2 || service == "" {
		return "", wrong
	}
	name, err := fabric.ParseName(labels[1] + "/" + labels[0])
	if err != nil {
		return "", errors.Join(wrong, err)
	}
	return name.String() + ":" + service, nil
}
