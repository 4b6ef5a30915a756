package fabric

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/trust"
)

// mostPublicBytes bounds a file of certificates or lists. It is enough for the text of a list of
// each authority, in base32.
const mostPublicBytes = limits.CertificateAuthorities * 2 * limits.RevocationBytes

// ReadCertificate returns the certificate in a file, in the form that weft fabric ca sign prints.
// Policy.CheckOwn checks its contents.
func ReadCertificate(path string) (*trust.Certificate, error) {
	text, err := readPublic(path)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	c, err := trust.CertificateFromText(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ReadAuthorities returns the public keys of certificate authorities. Each text is a key, in the
// form that weft fabric ca init prints, or the path of a file with one key per line.
func ReadAuthorities(texts []string) (all []trust.CAPublic, err error) {
	for _, text := range texts {
		if k, err := trust.ParseCAPublic(text); err == nil {
			all = append(all, k)
			continue
		} else if strings.HasPrefix(text, "weftcapub") {
			return nil, fmt.Errorf("%w; weft fabric ca show prints it", err)
		}
		lines, err := readPublic(text)
		if err != nil {
			return nil, fmt.Errorf("authority: %w; expected a public key weftcapub1-…, or a file with one", err)
		}
		for line := range strings.Lines(lines) {
			k, err := trust.ParseCAPublic(line)
			if err != nil {
				return nil, fmt.Errorf("%s: %w; weft fabric ca show prints it", text, err)
			}
			all = append(all, k)
		}
	}
	return all, nil
}

// ReadRevocations returns the encoded revocation lists in a file, one per line, in the form that
// PolicyConfig takes. If the file does not exist, there are no lists.
func ReadRevocations(path string) (lists [][]byte, err error) {
	text, err := readPublic(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("revocation lists: %w", err)
	}
	for line := range strings.Lines(text) {
		l, err := trust.RevocationListFromText(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		lists = append(lists, l.Append(nil))
	}
	return lists, nil
}

// KeepRevocations writes the file that ReadRevocations reads. It writes the whole file or
// nothing.
func KeepRevocations(path string, lists []*trust.RevocationList) error {
	texts := make([]string, 0, len(lists))
	for _, l := range lists {
		texts = append(texts, l.Text())
	}
	if err := Replace(path, strings.Join(texts, "\n")); err != nil {
		return fmt.Errorf("keep the revocation lists: %w", err)
	}
	return nil
}

// readPublic reads a file that holds no secret.
func readPublic(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostPublicBytes+1))
	if err == nil && len(b) > mostPublicBytes {
		err = fmt.Errorf("%s has more than %d bytes; expected one line for each authority", path, mostPublicBytes)
	}
	return string(b), err
}
