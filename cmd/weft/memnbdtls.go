package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nbd"
)

// nbdTLSFlags are the flags of `weft mem nbd` that decide which clients may use the device.
type nbdTLSFlags struct {
	cert, key, ca string
	insecure      bool
	clients       int

	config *tls.Config // nil: no TLS
	open   bool        // every host can use the device
}

func (f *nbdTLSFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.cert, "tls-cert", "",
		"with --tcp: require TLS, with the server's certificate from this PEM `FILE`")
	fs.StringVar(&f.key, "tls-key", "",
		"take the private key of --tls-cert from this PEM `FILE`, which must have mode 0600")
	fs.StringVar(&f.ca, "tls-ca", "",
		"require clients to have a certificate of one of the authorities in this PEM `FILE`")
	fs.BoolVar(&f.insecure, "insecure", false, "serve other hosts without TLS")
	intFlag(fs, &f.clients, "clients", limits.NBDClients, 1, limits.MostNBDClients,
		"admit at most `N` concurrent clients, and refuse others")
}

// completeTLS reads the certificates. It returns an error if other hosts could use the device
// without TLS.
func (f *memNBDFlags) completeTLS() (err error) {
	s := &f.secure
	if f.unix != "" {
		if s.cert+s.key+s.ca != "" {
			return usagef("--tls-cert is %q, --tls-key %q and --tls-ca %q, with --unix: expected --tcp, "+
				"since the mode of its file protects a unix socket",
				s.cert, s.key, s.ca)
		}
		return nil
	}
	if (s.cert == "") != (s.key == "") {
		return usagef("--tls-cert is %q and --tls-key is %q: expected both or none", s.cert, s.key)
	}
	if s.ca != "" && s.cert == "" {
		return usagef("--tls-ca is %q without --tls-cert: expected --tls-cert and --tls-key, too", s.ca)
	}
	resolved, off, err := resolveTCP(f.tcp)
	if err != nil {
		return fmt.Errorf("--tcp %s: %w", f.tcp, err)
	}
	if off && s.cert == "" && !s.insecure {
		return usagef("--tcp %s: other hosts could read and write the device; expected --tls-cert, "+
			"--tls-key and --tls-ca, or an address of 127.0.0.0/8, or --insecure",
			f.tcp)
	}
	f.tcp, s.open = resolved, off && s.ca == ""
	if s.cert == "" {
		return nil
	}
	s.config, err = s.load()
	return err
}

// load reads the certificates.
func (f *nbdTLSFlags) load() (*tls.Config, error) {
	cert, err := os.ReadFile(f.cert)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	key, err := readPrivate(f.key, limits.PEMFileBytes)
	if err != nil {
		return nil, fmt.Errorf("--tls-key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w; expected a certificate and its private key in PEM",
			f.cert, f.key, err)
	}
	now := time.Now()
	if c := pair.Leaf; now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return nil, fmt.Errorf(
			"--tls-cert %s: it is valid from %v to %v, and the clock says %v; renew the certificate, or set the clock",
			f.cert, c.NotBefore, c.NotAfter, now.UTC().Round(time.Second))
	}
	// 1.2: the lowest version that NBD allows
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if f.ca == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--tls-ca %s has no certificate; expected one or more in PEM", f.ca)
	}
	return c, nil
}

// printNBD prints how many clients a device had, and how many it turned away.
func printNBD(out io.Writer, c nbd.Counts) {
	fmt.Fprintf(out, "%d connections: %d gave way to others without a request, "+
		"%d were refused because all places were taken, "+
		"%d did not finish their handshake (%d of them because of TLS)\n",
		c.Accepted, c.GaveWay, c.Full, c.Failed, c.TLSFailed)
}
