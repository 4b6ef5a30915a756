package fabric

import (
	"encoding/pem"
	"testing"

	"github.com/weftnet/weft/internal/trust"
)

func FuzzStaticKeyFile(f *testing.F) {
	var k trust.PrivateKey
	for i := range k {
		k[i] = byte(i)
	}
	f.Add(k.Text() + "\n")
	f.Add(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: append(pkcs8[:len(pkcs8):len(pkcs8)], k[:]...)})))
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := parseStaticKey("nic.key", text); (err == nil) != (k.Check() == nil) {
			t.Errorf("%q: a weak key is accepted, or a key comes with the error %v", text, err)
		}
	})
}
