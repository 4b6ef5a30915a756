package seal

import "fmt"

// KeyLog is one key of a session, for readers of captures. Whoever has it can read and forge the
// frames of its phase.
type KeyLog struct {
	Index    uint32 // of the session, as it stands in the outer headers of the frames
	Outbound bool   // this NIC seals by the key; false: it opens by it
	Suite    Suite
	Phase    uint64 // number of the phase in its direction, from 0; the phase bit of its frames is the lowest bit
	First    uint64 // packet counter of the first frame; of an incoming phase, of the first frame that arrived
	Key      []byte // of the AEAD
}

// Log returns the current key of o, for frames to the session that has the index at the receiver.
func (o *Outgoing) Log(index uint32) KeyLog {
	return KeyLog{index, true, o.suite, o.phase, o.First, o.secret.key(o.suite)}
}

// Log returns the current key of in, for frames to the session that has the index here.
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

// LoggedKey returns the key that k holds. It fails if the key does not have the length of the
// suite's keys.
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
