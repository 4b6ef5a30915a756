package trust

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// reader takes fields from the front of untrusted bytes. After the first short field all fields
// are zero.
type reader struct {
	rest  []byte
	short bool
	bad   error // a defect other than being short
}

// take returns the next n bytes, or nil if there are fewer.
func (r *reader) take(n int) []byte {
	if r.short = r.short || n > len(r.rest); r.short {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) magic(want string) {
	if b := r.take(len(want)); b != nil && string(b) != want {
		r.bad = fmt.Errorf("it begins with %q; expected %q", b, want)
	}
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// list returns a counted list of texts. Its allocation is bounded by the bytes present.
func (r *reader) list() (texts []string) {
	n := int(r.byte())
	if n == 0 || n > len(r.rest) {
		r.short = r.short || n > len(r.rest)
		return nil
	}
	texts = make([]string, 0, n)
	for range n {
		texts = append(texts, string(r.take(int(r.byte()))))
	}
	return texts
}

// end returns the first defect, or an error about bytes after the last field.
func (r *reader) end() error {
	switch {
	case r.bad != nil:
		return r.bad
	case r.short:
		return errors.New("it ends too early")
	case len(r.rest) > 0:
		return fmt.Errorf("%d bytes follow its end", len(r.rest))
	}
	return nil
}
