package wire_test

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// relayVector is a relay body with the MAC of its first NIC, and the inputs of that MAC.
type relayVector struct {
	Secret  string `json:"secret"`
	Key     string `json:"key"`
	Covered string `json:"covered"`
	Body    string `json:"body"`
}

// relayKey derives the key from a secret, as docs/wire.md describes.
func relayKey(secret []byte) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "weft relay", 32)
	if err != nil {
		panic(err)
	}
	return key
}

// covered returns the input of the MAC of a body's first NIC.
func covered(b []byte) []byte {
	h, nics, _, message, err := walkRelay(b)
	if err != nil {
		panic(err)
	}
	input := wire.RelayMACInput(&h, &nics[0])
	list := b[wire.RelayHeadLen+wire.RelayNICLen:][:int(nics[0].Receivers)*wire.RelayReceiverLen]
	digest := sha256.Sum256(message)
	return append(append(input[:], list...), digest[:]...)
}

func macOf(key, covered []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(covered)
	return m.Sum(nil)[:wire.RelayMACLen]
}

func makeRelayVector() relayVector {
	var secret []byte
	for _, end := range []struct {
		cookie        uint64
		command, data uint32
	}{{0x0123456789abcdef, 0xfffffff0, 1}, {0xaabbccdd, 7, 8}} {
		secret = binary.LittleEndian.AppendUint64(secret, end.cookie)
		secret = binary.LittleEndian.AppendUint32(secret, end.command)
		secret = binary.LittleEndian.AppendUint32(secret, end.data)
	}
	key, b := relayKey(secret), relayBody()
	in := covered(b)
	copy(b[wire.RelayHeadLen+16:], macOf(key, in))
	return relayVector{hex.EncodeToString(secret), hex.EncodeToString(key), hex.EncodeToString(in), hex.EncodeToString(b)}
}

func TestTheRelayVectorHasTheMACOfItsFirstNIC(t *testing.T) {
	v := readVectors(t).Relay
	b := unhex(t, v.Body)
	_, nics, _, _, err := walkRelay(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(relayKey(unhex(t, v.Secret))); got != v.Key {
		t.Errorf("the key is %s; the vector says %s", got, v.Key)
	}
	if got := hex.EncodeToString(covered(b)); got != v.Covered {
		t.Errorf("covered are %s; the vector says %s", got, v.Covered)
	}
	if got := macOf(unhex(t, v.Key), unhex(t, v.Covered)); string(got) != string(nics[0].MAC[:]) {
		t.Errorf("the MAC is %x; the vector says %x", got, nics[0].MAC)
	}
}
