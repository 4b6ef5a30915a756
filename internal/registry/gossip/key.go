package gossip

import (
	"errors"
	"slices"

	"github.com/hashicorp/memberlist"

	"github.com/weftnet/weft/internal/trust"
)

// Key seals the gossip of one fabric, by AES-256.
type Key [trust.KeyLen]byte

// Keys returns the keys of the gossip that belong to the keys of a fabric, in the same order.
func Keys(fabric []trust.FabricKey) (keys []Key) {
	for _, k := range fabric {
		keys = append(keys, k.Derive(trust.LabelGossip))
	}
	return keys
}

// keyring returns the keys in the form of memberlist: the first seals, each opens.
func keyring(keys []Key) (*memberlist.Keyring, error) {
	if slices.Contains(keys, Key{}) {
		return nil, errors.New("a key of zeros, which no fabric has")
	}
	others := make([][]byte, 0, len(keys))
	for i := range keys {
		others = append(others, keys[i][:])
	}
	return memberlist.NewKeyring(others, keys[0][:])
}
