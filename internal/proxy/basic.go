package proxy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// credentials are the user and the password that a client sends.
type credentials struct{ user, password string }

// challenge is the header that asks an HTTP client for credentials (RFC 9110, 11.7; RFC 7617).
const challenge = "Proxy-Authenticate: Basic realm=\"weft\", charset=\"UTF-8\"\r\n"

// errNoCredentials refuses a request without credentials. Browsers send credentials only after a
// challenge.
var errNoCredentials = errors.New("expected a user and a password; curl sends them with --proxy-user USER:PASSWORD")

// basic returns the credentials in the head of a request: the header Proxy-Authorization with the
// scheme Basic. Its errors do not quote the header, which may contain a password.
func basic(head []byte) (credentials, error) {
	value, found := "", false
	_, rest, _ := strings.Cut(string(head), "\n")
	for line := range strings.SplitSeq(rest, "\n") {
		name, v, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if !ok || !strings.EqualFold(name, "Proxy-Authorization") {
			continue
		}
		if found {
			return credentials{}, errors.New("two headers Proxy-Authorization; expected one")
		}
		value, found = strings.Trim(v, " \t"), true
	}
	if !found {
		return credentials{}, errNoCredentials
	}
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return credentials{}, errors.New("a header Proxy-Authorization of another scheme; expected Basic")
	}
	said, err := base64.StdEncoding.Strict().DecodeString(strings.Trim(token, " "))
	if err != nil {
		return credentials{}, errors.New("the header Proxy-Authorization is not base64")
	}
	user, password, ok := strings.Cut(string(said), ":")
	if !ok {
		return credentials{}, fmt.Errorf("the header Proxy-Authorization has %d bytes without a colon; "+
			"expected USER:PASSWORD in base64",
			len(said))
	}
	return credentials{user, password}, nil
}
