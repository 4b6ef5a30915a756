package stream

import (
	"net/http"
	"time"

	"github.com/weftnet/weft"
)

// Transport returns an [http.Transport] that sends requests over streams from p. The host of a URL
// names the service in the form that [ParseHost] reads: http://http.0.web.weft/ is the service
// web/0:http.
//
//	client := &http.Client{Transport: stream.Transport(p)}
//	response, err := client.Get("http://http.0.web.weft/index.html")
//
// Each call returns a new Transport with the limits of [http.DefaultTransport]. A dial may take up
// to 30 seconds. The Transport keeps at most 100 idle connections, each for at most 90 seconds. The
// Transport ignores the proxy settings of the environment.
//
// For https URLs, set a TLSClientConfig that trusts the server's certificate. The Transport then
// uses HTTP/2 if the server supports it. For HTTP/2 without TLS, set the field Protocols of the
// Transport as package net/http describes.
//
// If the NIC of p does not know the server's process yet, a request fails with ECONNREFUSED. If a
// client and its server start at the same time, the client should call [weft.Process.WaitName]
// before its first request.
func Transport(p *weft.Process) *http.Transport {
	d := &Dialer{Process: p, Timeout: 30 * time.Second}
	return &http.Transport{
		DialContext:           d.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}
