package stream

import (
	"net/http"
	"time"

	"github.com/weftnet/weft"
)

// Transport returns an [http.Transport] that sends requests over streams from p. The host of a URL
// names the service, as [ParseHost] reads it: http://http.0.web.weft/ is the service web/0:http.
//
//	client := &http.Client{Transport: stream.Transport(p)}
//	response, err := client.Get("http://http.0.web.weft/index.html")
//
// Each call returns a new Transport with the limits of [http.DefaultTransport]: a dial may take 30
// seconds, 100 connections may be idle, for 90 seconds each. It uses no proxy of the environment.
// An https URL needs a TLSClientConfig that trusts the server's certificate, and then HTTP/2 is
// used if the server has it. For HTTP/2 without TLS, set Protocols as package net/http describes.
//
// A request to a process that this NIC does not know yet fails with ECONNREFUSED. A client that
// starts together with its server calls [weft.Process.WaitName] first.
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
