package seal

import "fmt"

// KeyLog is one key of a session, for readers of captures. With it, a reader can decrypt and
// forge the frames of its phase.
type KeyLog struct {
	Index    uint32 // of the session, as in the outer headers of the frames
	Outbound bool   // true: this NIC seals with the key; false: it opens with it
	Suite    Suite
	// Phase is the number of the phase in its direction, from 0. The phase bit of its frames is
	// the lowest bit.
	Phase uint64
	// First is the packet counter of the first frame; in an incoming phase, of the first frame
	// that arrived.
	First uint64
	Key   []byte // of the AEAD
}

// Log returns the current key of o, for frames to the session with the index at the receiver.
func (o *Outgoing) Log(index uint32) KeyLog {
	return KeyLog{index, true, o.suite, o.phase, o.First, o.secret.key(o.suite)}
}

// Log returns the current key of in, for frames to the session with the index here.
func (in *Incoming) Log(index uint32) KeyLog {
	return KeyLog{index, false, in.suite, in.phase, in.first, in.secret.key(in.suite)}
}

// ParseSuite returns the suite whose String is name.
func ParseSuite(name string) (Suite, error) {
	for _, s := range []Suite{AES, ChaCha} {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("seal: suite %q; expected %v or %v", name, AES, ChaCha)
}

// KeyLen returns the length of the suite's keys, in bytes.
func (s Suite) KeyLen() int {
	if s == AES {
		return 16
	}
	return 32
}

// LoggedKey returns the key that k holds. It fails if the key has the wrong length for the suite.
func LoggedKey(k *KeyLog) (*Key, error) {
	if len(k.Key) != k.Suite.KeyLen() {
		return nil, fmt.Errorf("seal: a key of %d bytes; expected %d for %v", len(k.Key), k.Suite.KeyLen(), k.Suite)
	}
	aead, err := k.Suite.aead(k.Key)
	if err != nil {
		return nil, err
	}
	return &Key{aead: aead}, nil
}
