package gossip

import (
	"errors"
	"fmt"
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

// UseKeys replaces the keys: the first seals, each opens. The NIC no longer
// hears members that seal with a removed key.
func (r *Registry) UseKeys(keys []Key) error {
	if len(keys) == 0 || slices.Contains(keys, Key{}) {
		return errors.New("gossip: no key, or a key of zeros, which no fabric has")
	}
	for i := range keys {
		if err := r.ring.AddKey(slices.Clone(keys[i][:])); err != nil {
			return fmt.Errorf("gossip: %w", err)
		}
	}
	if err := r.ring.UseKey(keys[0][:]); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	var gone []Key // RemoveKey moves the keys that GetKeys returns
	for _, k := range r.ring.GetKeys() {
		if !slices.Contains(keys, Key(k)) {
			gone = append(gone, Key(k))
		}
	}
	for i := range gone {
		if err := r.ring.RemoveKey(gone[i][:]); err != nil {
			return fmt.Errorf("gossip: %w", err)
		}
	}
	return nil
}
