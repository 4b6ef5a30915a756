package limit

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// gcm makes an AEAD that seals and opens, and buffers for a message.
func (c *child) gcm() (g cipher.AEAD, nonce, plain, sealed []byte, err error) {
	b, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if g, err = cipher.NewGCM(b); err != nil {
		return nil, nil, nil, nil, err
	}
	return g, make([]byte, g.NonceSize()), make([]byte, c.Size), make([]byte, 0, c.Size+g.Overhead()), nil
}

func seal(c *child) error {
	g, nonce, plain, sealed, err := c.gcm()
	if err != nil {
		return err
	}
	n := uint64(0)
	return c.time(16, func() error {
		n++
		binary.LittleEndian.PutUint64(nonce, n)
		g.Seal(sealed, nonce, plain, nil)
		return nil
	})
}

func open(c *child) error {
	g, nonce, plain, sealed, err := c.gcm()
	if err != nil {
		return err
	}
	sealed = g.Seal(sealed, nonce, plain, nil)
	return c.time(16, func() error {
		_, err := g.Open(plain[:0], nonce, sealed, nil)
		return err
	})
}
