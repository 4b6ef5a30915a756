package relay

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The source writes a MAC for each NIC of the list (wire.RelayMACInput). The key belongs to the
// session of the source and that NIC, so the NICs in between cannot make a MAC:
//
//	source  SHA-256 of the message, once
//	        HMAC of the head, the NIC's receivers and the digest ─► the NIC's entry, for each NIC
//	NIC     the same for its own entry: equal ─► deliver
//	                                    else  ─► missed; the source sends the message itself
//
// The MAC is HMAC-SHA256, cut to 16 bytes. AES-GMAC is faster, but a reused nonce reveals the
// key, and a relay has no number that is certain to be new for the pair. HMAC needs none. The
// source hashes a message only once, so each further NIC costs it only a few blocks.

// authenticator computes MACs. It holds memory that would otherwise be allocated for each MAC.
type authenticator struct {
	hash   hash.Hash // of a message
	digest [sha256.Size]byte
	input  [wire.RelayMACInputLen]byte
	sum    [sha256.Size]byte
}

// keyed is the HMAC of one session with a peer. It is replaced when the key of the peer changes.
type keyed struct {
	key [32]byte
	mac hash.Hash
}

// use sets the key of the following MACs.
func (k *keyed) use(key [32]byte) {
	if k.mac == nil || k.key != key {
		k.key = key
		k.mac = hmac.New(sha256.New, k.key[:])
	}
}

// read computes the digest of a message. The following MACs are for this message.
func (a *authenticator) read(message []byte) {
	a.hash.Reset()
	a.hash.Write(message)
	a.hash.Sum(a.digest[:0])
}

// compute returns the MAC for a NIC of the list. It is valid until the next call.
func (a *authenticator) compute(k *keyed, head *wire.RelayHead, n *wire.RelayNIC, receivers []byte) []byte {
	k.mac.Reset()
	a.input = wire.RelayMACInput(head, n)
	k.mac.Write(a.input[:])
	k.mac.Write(receivers)
	k.mac.Write(a.digest[:])
	return k.mac.Sum(a.sum[:0])[:wire.RelayMACLen]
}

// sign writes the MACs of a relay from this NIC. A NIC without a session gets none, and will be
// missed.
func (t *Table) sign(r *Relay) {
	t.macs.read(r.body[r.message:])
	for _, at := range r.nics[:len(r.nics)-1] {
		b := r.body[at.at:]
		n, receivers, _, _ := wire.ParseRelayNIC(b) // parse has accepted it
		pr := t.nic.Peer(n.NIC)
		if pr == nil || pr.Session() != n.Session {
			continue
		}
		if key, ok := pr.RelayKey(); ok {
			pr.keyed.use(key)
			copy(n.MAC[:], t.macs.compute(&pr.keyed, &r.head, &n, receivers))
			n.Put(b)
		}
	}
}

// Sign writes the MACs into the body of a relay from this NIC that another NIC is to send. It is
// for tests and for simulated NICs that turn hostile. It reports whether the body is well formed.
func (t *Table) Sign(body []byte) bool {
	r := &Relay{body: body}
	if !r.parse() {
		return false
	}
	t.sign(r)
	return true
}

// genuine reports whether a relay's source has made the relay's data for this NIC. The key
// belongs to the session that the list names. If source and receiver have another session by now,
// or none, the NIC refuses the message without counting it: an honest relay may be late. A wrong
// MAC is counted.
func (t *Table) genuine(r *Relay, n *wire.RelayNIC, receivers []byte) bool {
	source := t.nic.Peer(r.head.NIC)
	if source == nil || source.Session() != n.Session {
		return t.defect == mutate.RelaySessionUnchecked
	}
	key, ok := source.RelayKey()
	if !ok { // the list names session 0, which is none
		return false
	}
	source.keyed.use(key)
	t.macs.read(r.body[r.message:])
	mac := t.macs.compute(&source.keyed, &r.head, n, receivers)
	if !hmac.Equal(mac, n.MAC[:]) && t.defect != mutate.RelayMacUnchecked {
		t.counts[vni.NICRefusedRelay]++
		return false
	}
	return true
}
