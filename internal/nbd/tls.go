package nbd

import (
	"bufio"
	"crypto/tls"
	"fmt"
)

// Before STARTTLS, a server with Config.TLS answers no option and names no export:
//
//	client                                  server
//	  ── any option ─────────────────────────►
//	  ◄─ NBD_REP_ERR_TLS_REQD ────────────────  EXPORT_NAME has no answer: the connection ends
//	  ── STARTTLS ───────────────────────────►
//	  ◄─ NBD_REP_ACK ─────────────────────────
//	  ◄═ TLS ════════════════════════════════►  the options start again; the client sends no flags

// requireTLS refuses an option that arrives before STARTTLS.
func (n *conn) requireTLS(o option) error {
	n.s.counts.tlsRequired.Add(1)
	if o == optExportName {
		return fmt.Errorf("%w: EXPORT_NAME before STARTTLS", errProtocol)
	}
	return n.reply(o, repErrTLSRequired, []byte("expected STARTTLS first"))
}

// startTLS answers STARTTLS, and continues the handshake within TLS.
func (n *conn) startTLS(f *fields) error {
	switch {
	case n.s.cfg.TLS == nil:
		return n.reply(optStartTLS, repErrUnsupported, []byte("there is no TLS here"))
	case n.tls:
		return n.reply(optStartTLS, repErrInvalid, []byte("TLS is there already"))
	case !f.whole():
		return n.reply(optStartTLS, repErrInvalid, []byte("STARTTLS has no data"))
	case n.r.Buffered() > 0: // an attacker on the path may have inserted them
		return fmt.Errorf("%w: %d bytes behind STARTTLS, before its answer", errProtocol, n.r.Buffered())
	}
	if err := n.reply(optStartTLS, repAck, nil); err != nil {
		return err
	}
	c := tls.Server(n.c, n.s.cfg.TLS)
	if err := c.Handshake(); err != nil { // the deadline of begin applies
		n.s.counts.tlsFailed.Add(1)
		return fmt.Errorf("nbd: TLS: %w", err)
	}
	n.c, n.source.c, n.tls = c, c, true
	n.r = bufio.NewReaderSize(&n.source, readBuffer)
	return nil
}
