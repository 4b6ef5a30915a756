// Package authority is a certificate authority in a directory:
//
//	ca.key    its secret key; mode 0600
//	lock      held by the command that uses it
//	issued    its certificates, one a line, the oldest first
//	revoked   its newest revocation list
//
// Only ca.key is needed to sign. Serial numbers are random. If the last list is lost, the number
// of the next list is the time.
package authority

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

// keepRevoked is the time for which a certificate stays in revocation lists after its end, in
// seconds. It allows for differences between clocks.
const keepRevoked = 30 * 24 * 60 * 60

// Authority is a certificate authority. Only this process can use it, until Close.
type Authority struct {
	dir  string
	key  trust.CAKey
	lock *os.File
}

// Create creates an authority with a new key in dir. It refuses a directory that already has one.
func Create(dir string) (*Authority, error) {
	k, err := trust.NewCAKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	made, err := fabric.CreateOnce(keyFile(dir), k.Text())
	switch {
	case err != nil:
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	case !made:
		return nil, fmt.Errorf("%s has a certificate authority already; name another directory by --dir", dir)
	}
	return Open(dir)
}

// Open opens the authority in dir.
func Open(dir string) (*Authority, error) {
	text, err := fabric.ReadSecret(keyFile(dir), "authority's key")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make an authority by weft fabric ca init", err)
	}
	if err != nil {
		return nil, err
	}
	k, err := trust.ParseCAKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile(dir), err)
	}
	lock, err := ctl.LockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("certificate authority in %s: %w", dir, err)
	}
	return &Authority{dir, k, lock}, nil
}

// Close lets other processes use the authority.
func (a *Authority) Close() error { return a.lock.Close() }

// Public returns the key by which NICs know the authority.
func (a *Authority) Public() trust.CAPublic { return a.key.Public() }

func keyFile(dir string) string      { return filepath.Join(dir, "ca.key") }
func (a *Authority) issued() string  { return filepath.Join(a.dir, "issued") }
func (a *Authority) revoked() string { return filepath.Join(a.dir, "revoked") }

// Sign draws c's serial number, signs c and records it.
func (a *Authority) Sign(c *trust.Certificate) error {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	c.Serial = max(binary.LittleEndian.Uint64(b[:]), 1)
	if err := c.Sign(a.key.Private()); err != nil {
		return err
	}
	f, err := os.OpenFile(a.issued(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("note the certificate: %w", err)
	}
	_, err = f.WriteString(c.Text() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("note the certificate: %w", err)
	}
	return nil
}

// Issued returns the certificates that the authority has signed, the oldest first.
func (a *Authority) Issued() (all []*trust.Certificate, err error) {
	b, err := os.ReadFile(a.issued())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		c, err := trust.CertificateFromText(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w; remove the line", a.issued(), number, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// List returns the newest revocation list, or nil if no certificate was ever revoked.
func (a *Authority) List() (*trust.RevocationList, error) {
	b, err := os.ReadFile(a.revoked())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := trust.RevocationListFromText(string(b))
	if err == nil {
		err = l.Verify([]trust.CAPublic{a.Public()})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restore the file, or remove it and revoke again", a.revoked(), err)
	}
	return l, nil
}

// Revoke signs the next revocation list. The list adds the certificates with these serial numbers
// and these static keys to those of the last list. A certificate that ended 30 days ago is
// dropped. wallSeconds is the time in Unix seconds.
func (a *Authority) Revoke(serials []uint64, keys []trust.PublicKey, wallSeconds int64) (*trust.RevocationList, error) {
	last, err := a.List()
	if err != nil {
		return nil, err
	}
	all, err := a.Issued()
	if err != nil {
		return nil, err
	}
	next := trust.RevocationList{Number: uint64(max(wallSeconds, 1)), Serials: slices.Clone(serials),
		Keys: slices.Clone(keys)}
	if last != nil {
		next.Number = max(last.Number+1, next.Number)
		next.Serials = append(next.Serials, last.Serials...)
		next.Keys = append(next.Keys, last.Keys...)
	}
	next.Serials = slices.DeleteFunc(next.Serials, func(s uint64) bool {
		return slices.ContainsFunc(all, func(c *trust.Certificate) bool {
			return c.Serial == s && c.NotAfter+keepRevoked < wallSeconds
		})
	})
	if err := next.Sign(a.key.Private()); err != nil {
		return nil, err
	}
	if err := fabric.Replace(a.revoked(), next.Text()); err != nil {
		return nil, fmt.Errorf("keep the revocation list: %w", err)
	}
	return &next, nil
}
