package limit

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/load"
)

// A sealed limit carries the frames of a sealed Weft link, with the same library:
//
//	datagram   ├── header, 16 B, in clear ──┤ payload, encrypted │ tag, 16 B │
//
// The tag covers the header, and the counter in the header is the nonce. The payload is
// encrypted from the message into the datagram, and decrypted from the datagram into its place
// in the message, without another copy.
const (
	sealedHead  = 16
	sealedTag   = 16
	sealedExtra = sealedHead + sealedTag
	sealedNonce = 12
)

// sealer seals the datagrams of one role, or opens them.
type sealer struct {
	aead    cipher.AEAD
	nonce   [sealedNonce]byte
	counter uint64
}

func newSealer() (*sealer, error) {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead: aead}, err
}

// seal writes the datagram of a payload to the start of b, and returns its length.
func (s *sealer) seal(b, from []byte) int {
	s.counter++
	binary.BigEndian.PutUint64(b[sealedHead-8:], s.counter)
	binary.BigEndian.PutUint64(s.nonce[sealedNonce-8:], s.counter)
	s.aead.Seal(b[sealedHead:sealedHead], s.nonce[:], from, b[:sealedHead])
	return len(from) + sealedExtra
}

// errForged means that the tag of a datagram is bad: the limit then does not do what it claims.
var errForged = errors.New("the tag of a datagram is bad")

// open decrypts a datagram to the start of to, and returns the length of its payload.
func (s *sealer) open(to, b []byte) (int, error) {
	if len(b) < sealedExtra {
		return 0, fmt.Errorf("%w: it has %d bytes", errForged, len(b))
	}
	copy(s.nonce[sealedNonce-8:], b[sealedHead-8:sealedHead])
	if _, err := s.aead.Open(to[:0], s.nonce[:], b[sealedHead:], b[:sealedHead]); err != nil {
		return 0, errForged
	}
	return len(b) - sealedExtra, nil
}

// sealedWire seals what goes over a wire. A datagram then carries less of a message: piece
// returns how much.
type sealedWire struct {
	wire
	out, in *sealer // of the two directions
	sent    []byte  // the datagrams of the outgoing message
	opened  []byte  // the payloads of the incoming datagrams
}

// sealed returns a function that opens a wire and seals what goes over it.
func sealed(open func(*child) (wire, error)) func(*child) (wire, error) {
	return func(c *child) (wire, error) {
		w, err := open(c)
		if err != nil {
			return nil, err
		}
		s := &sealedWire{wire: w, opened: make([]byte, udpLanding)}
		pieces := (len(c.message())+s.piece()-1)/s.piece() + 1
		s.sent = make([]byte, pieces*w.piece())
		if s.out, err = newSealer(); err == nil {
			s.in, err = newSealer()
		}
		return s, err
	}
}

func (w *sealedWire) piece() int { return w.wire.piece() - sealedExtra }

func (w *sealedWire) send(b []byte) error {
	n := 0
	for len(b) > 0 {
		part := b[:min(len(b), w.piece())]
		n += w.out.seal(w.sent[n:], part)
		b = b[len(part):]
	}
	return w.wire.send(w.sent[:n])
}

// receive opens the datagrams that came. All but the last have the full length.
func (w *sealedWire) receive() ([]byte, error) {
	b, err := w.wire.receive()
	// a shorter one is the first word of a wire, which is not sealed
	if err != nil || len(b) < sealedExtra {
		return nil, err
	}
	return openAll(w.in, w.opened, b, w.wire.piece())
}

// openAll opens consecutive datagrams of a length; the last may be shorter. It returns their
// payloads.
func openAll(s *sealer, to, b []byte, length int) ([]byte, error) {
	n := 0
	for len(b) > 0 {
		d := b[:min(len(b), length)]
		got, err := s.open(to[n:], d)
		if err != nil {
			return nil, err
		}
		n += got
		b = b[len(d):]
	}
	return to[:n], nil
}

// sealedUDP is udpFor for sealed datagrams.
func sealedUDP(how waiting) func(*child) (wire, error) {
	open := udpFor(how)
	return sealed(func(c *child) (wire, error) {
		longer := *c
		// the kernel cuts it into one datagram more than a full one needs
		longer.Size = len(c.message()) + sealedExtra
		return open(&longer)
	})
}

// sealedDatagram returns the length of the datagrams of a sealed stream.
func (c *child) sealedDatagram(w wire) int {
	if find(c.Limit).Kind == Rate {
		return min(c.Size+sealedExtra, w.piece())
	}
	return w.piece()
}

// udpSealedPut seals as many datagrams as fit into one call, and sends them.
func udpSealedPut(c *child, w *udpWire) error {
	length := c.sealedDatagram(w)
	if err := w.segments(length); err != nil {
		return err
	}
	s, err := newSealer()
	if err != nil {
		return err
	}
	payloadBytes := length - sealedExtra
	pieces := w.batch / length
	message, out := load.Written(max(c.Size, pieces*payloadBytes)), load.Written(w.batch)
	for at := 0; ; {
		for i := range pieces {
			if at+payloadBytes > len(message) {
				at = 0
			}
			s.seal(out[i*length:(i+1)*length], message[at:at+payloadBytes])
			at += payloadBytes
		}
		if err := w.send(out); err != nil {
			return err
		}
	}
}

// udpSealedTake opens datagrams into a message, and counts the payloads.
func udpSealedTake(c *child, w *udpWire) error {
	length := c.sealedDatagram(w)
	if err := w.join(); err != nil {
		return err
	}
	s, err := newSealer()
	if err != nil {
		return err
	}
	landing := make([]byte, udpReceives*udpLanding)
	hs := headers(landing, udpReceives)
	message := load.Written(max(c.Size, udpLanding) + udpLanding)
	at := 0
	return c.count(func() (bytes int, err error) {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(w.socket), uintptr(unsafe.Pointer(&hs[0])),
			uintptr(len(hs)), unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 {
			if errno != unix.EAGAIN && errno != unix.EINTR && errno != unix.ECONNREFUSED {
				return 0, fmt.Errorf("recvmmsg: %w", errno)
			}
			return 0, nil
		}
		for i := range int(n) {
			if at+udpLanding > len(message) {
				at = 0
			}
			b, err := openAll(s, message[at:], landing[i*udpLanding:][:hs[i].n], length)
			if err != nil {
				return 0, err
			}
			at += len(b)
			bytes += len(b)
		}
		return bytes, nil
	})
}

// xdpSealedPut seals datagrams into their chunks, and sends them in batches.
func xdpSealedPut(c *child) error {
	w, err := newXDP(c)
	if err != nil {
		return err
	}
	x := w.(*xdpWire)
	s, err := newSealer()
	if err != nil {
		return err
	}
	length := c.sealedDatagram(x)
	from := load.Written(length - sealedExtra)
	for {
		for range xdpBatch {
			b := x.reserve(length)
			if b == nil {
				break
			}
			s.seal(b, from)
		}
		if err := x.kick(); err != nil {
			return err
		}
	}
}

func xdpSealedTake(c *child) error {
	w, err := newXDP(c)
	if err != nil {
		return err
	}
	s, err := newSealer()
	if err != nil {
		return err
	}
	message := load.Written(max(c.Size, udpLanding) + udpLanding)
	at := 0
	return c.count(func() (bytes int, err error) {
		for range xdpBatch {
			b, err := w.receive()
			if len(b) < sealedExtra || err != nil {
				return bytes, err
			}
			if at+len(b) > len(message) {
				at = 0
			}
			n, err := s.open(message[at:], b)
			if err != nil {
				return bytes, err
			}
			at += n
			bytes += n
		}
		return bytes, nil
	})
}
