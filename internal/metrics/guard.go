package metrics

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard decides which requests the server answers.
//
//	visitor                          /metrics, /healthz, /readyz    /debug/pprof/
//	unix socket: this user or root   yes                            yes
//	TCP with the token               yes                            yes
//	TCP without one, if one is set   403                            403
//	TCP, if none is set              yes, for a loopback Host       403
//
// An address that other hosts can reach has a token; New refuses it without one.
type guard struct {
	unix  bool
	token Token
}

// refusal returns the reason to refuse a request, or "".
func (g *guard) refusal(r *http.Request) string {
	switch {
	case g.unix: // the mode of the socket has decided
		return ""
	case g.token.set:
		if !g.bears(r) {
			return "the request lacks the token of this NIC; expected the header Authorization: Bearer TOKEN, " +
				"with the TOKEN of metrics_token_file"
		}
		return ""
	case !loopbackHost(r.Host): // DNS rebinding: a web page must not read by a browser
		return "the request names a host that is not this one; expected localhost or a loopback IP"
	case strings.HasPrefix(r.URL.Path, pprofPath):
		return "profiles need a unix socket (metrics = \"unix\") or a token (metrics_token_file)"
	}
	return ""
}

// bears reports whether a request has the right token. Its time does not depend on the token.
func (g *guard) bears(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(hash[:], g.token.hash[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// loopbackHost reports whether the header Host names this host by loopback. Programs that speak
// HTTP/1.0 send none; browsers always do.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "" || strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}
