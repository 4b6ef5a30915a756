package trust_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
)

func fabricKey(t testing.TB, seed uint64) trust.FabricKey {
	t.Helper()
	k, err := trust.NewFabricKey(secret.Seeded(seed).Reader(secret.StaticKey))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAKeyIsReadFromItsText(t *testing.T) {
	k := fabricKey(t, 1)
	if got, err := trust.ParseFabricKey(k.Text() + "\n"); err != nil || got != k || strings.ContainsAny(k.Text(), " \n") {
		t.Errorf("fabric key %s is read as %s, %v", k.Text(), got.Text(), err)
	}
	private := trust.PrivateKey(k)
	if got, err := trust.ParsePrivateKey(private.Text()); err != nil || got != private {
		t.Errorf("static key: %v", err)
	}
	public := private.Public()
	if got, err := trust.ParsePublicKey(public.String()); err != nil || got != public {
		t.Errorf("public key: %v", err)
	}
	ca := trust.CAKey(k)
	if got, err := trust.ParseCAKey(ca.Text()); err != nil || got != ca {
		t.Errorf("authority's key: %v", err)
	}
	if got, err := trust.ParseCAPublic(ca.Public().String()); err != nil || got != ca.Public() {
		t.Errorf("authority's public key: %v", err)
	}
}

// bad returns the text of 32 bytes that no generator has drawn, with a right checksum: the Text
// of the key.
func bad(fill func(i int) byte) string {
	var k trust.FabricKey
	for i := range k {
		k[i] = fill(i)
	}
	return k.Text()
}

func TestABadFabricKeyIsRefusedWithItsCause(t *testing.T) {
	good := fabricKey(t, 2).Text()
	swapped := []byte(good)
	swapped[10] = 'a' + (swapped[10]-'a'+1)%26
	for name, c := range map[string]struct {
		text string
		want error
		says string
	}{
		"nothing":            {" \n", trust.ErrNotAKey, "the text is empty"},
		"other words":        {"hello", trust.ErrNotAKey, "begins with weft1-"},
		"a public key":       {trust.PublicKey(fabricKey(t, 2)).String(), trust.ErrNotAKey, "this is a NIC's public key"},
		"a static key":       {trust.PrivateKey(fabricKey(t, 2)).Text(), trust.ErrNotAKey, "this is a NIC's static key"},
		"one letter altered": {string(swapped), trust.ErrAltered, "checksum"},
		"upper case":         {"weft1-" + strings.ToUpper(good[6:]), trust.ErrAltered, "character 7 is not one of a-z"},
		"twice":              {good + good, trust.ErrAltered, "expected at most 64"},
		"two lines":          {good + "\n" + good, trust.ErrAltered, "copy the line alone"},
		"zeros":              {bad(func(int) byte { return 0 }), trust.ErrWeak, "1 distinct bytes"},
		"one letter":         {bad(func(int) byte { return 'x' }), trust.ErrWeak, "1 distinct bytes"},
		"a word of seven":    {bad(func(i int) byte { return byte(i % 7) }), trust.ErrWeak, "7 distinct bytes; expected at least 8"},
	} {
		_, err := trust.ParseFabricKey(c.text)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v that says %q", name, err, c.want, c.says)
		}
		if err != nil && strings.Contains(err.Error(), good[10:30]) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
	if _, err := trust.ParseFabricKey(bad(func(i int) byte { return byte(i % 8) })); err != nil {
		t.Errorf("8 distinct bytes: %v", err)
	}
}

func TestEachTruncatedKeyIsRefused(t *testing.T) {
	good := fabricKey(t, 3).Text()
	for n := 1; n < len(good); n++ {
		if _, err := trust.ParseFabricKey(good[:n]); !errors.Is(err, trust.ErrTruncated) {
			t.Errorf("%d of %d characters: %v", n, len(good), err)
		}
	}
}

func TestEachAlteredLetterOfAKeyIsNoticed(t *testing.T) {
	good := fabricKey(t, 4).Text()
	for i := range good {
		for _, c := range []byte("a7q-") {
			altered := []byte(good)
			altered[i] = c
			if _, err := trust.ParseFabricKey(string(altered)); err == nil && string(altered) != good {
				t.Errorf("letter %d altered into %c: accepted", i, c)
			}
		}
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	k := fabricKey(t, 5)
	fabric, err := trust.NewFabric(k)
	if err != nil {
		t.Fatal(err)
	}
	holder := struct {
		Key    trust.FabricKey
		Static *trust.PrivateKey
		CA     []trust.CAKey
		Fabric trust.Fabric
	}{k, (*trust.PrivateKey)(&k), []trust.CAKey{trust.CAKey(k)}, fabric}
	for _, v := range []any{k, &k, trust.PrivateKey(k), trust.CAKey(k), fabric, holder, []any{k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%08b"} {
			text := fmt.Sprintf(verb, v)
			decimals := fmt.Sprintf("%d, %d", k[0], k[1])
			if shows(text, k[:], k.Text()[6:20]) || strings.Contains(strings.ReplaceAll(text, " ", ", "), decimals) {
				t.Errorf("%s of %T shows the key: %s", verb, v, text)
			}
		}
		b, err := json.Marshal(v)
		if err != nil || shows(string(b), k[:], k.Text()[6:20]) || bytes.Contains(b, fmt.Appendf(nil, "%d,%d", k[0], k[1])) {
			t.Errorf("JSON of %T: %s, %v", v, b, err)
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", v)
		if shows(out.String(), k[:], k.Text()[6:20]) {
			t.Errorf("the log of %T shows the key: %s", v, out.String())
		}
	}
	if !strings.Contains(fmt.Sprint(k), "fabric key") {
		t.Errorf("a fabric key is printed as %v", k)
	}
}

func TestAFabricTakesOneToFourDistinctStrongKeys(t *testing.T) {
	var keys []trust.FabricKey
	for i := range 5 {
		keys = append(keys, fabricKey(t, uint64(i)))
	}
	for name, c := range map[string]struct {
		keys []trust.FabricKey
		want string
	}{
		"none":       {nil, "expected 1 to 4"},
		"one":        {keys[:1], ""},
		"four":       {keys[:4], ""},
		"five":       {keys, "expected 1 to 4"},
		"one twice":  {[]trust.FabricKey{keys[0], keys[1], keys[0]}, "keys 1 and 3 of the fabric are the same"},
		"a weak one": {[]trust.FabricKey{keys[0], {}}, "key 2 of the fabric: fabric key: weak"},
	} {
		f, err := trust.NewFabric(c.keys...)
		if c.want == "" && (err != nil || len(f.Keys()) != len(c.keys) || f.Keys()[0] != c.keys[0]) {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestDerivedKeysAndFingerprintsDiffer(t *testing.T) {
	seen := map[[32]byte]string{}
	for seed := range uint64(2) {
		k := fabricKey(t, seed)
		for _, label := range []string{trust.LabelPSK, trust.LabelMAC1, trust.LabelCookie, trust.LabelGossip} {
			d := k.Derive(label)
			if other := seen[d]; other != "" {
				t.Errorf("%s and %s have one key", label, other)
			}
			seen[d] = label
		}
	}
	one, same, other := fabricKey(t, 1), fabricKey(t, 1), fabricKey(t, 2)
	if one.Fingerprint() == other.Fingerprint() || one.Fingerprint() != same.Fingerprint() {
		t.Error("fingerprints do not tell keys apart")
	}
}

func FuzzKeyText(f *testing.F) {
	k := fabricKey(f, 6)
	for _, s := range []string{k.Text(), trust.PrivateKey(k).Text(), trust.PublicKey(k).String(), trust.CAKey(k).Text(), trust.CAPublic(k).String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		trimmed := strings.TrimSpace(s)
		if k, err := trust.ParseFabricKey(s); err == nil && k.Text() != trimmed {
			t.Errorf("fabric key %q is written as %q", s, k.Text())
		}
		if k, err := trust.ParsePrivateKey(s); err == nil && k.Text() != trimmed {
			t.Errorf("static key %q is written as %q", s, k.Text())
		}
		if k, err := trust.ParsePublicKey(s); err == nil && k.String() != trimmed {
			t.Errorf("public key %q is written as %q", s, k)
		}
		if k, err := trust.ParseCAKey(s); err == nil && k.Text() != trimmed {
			t.Errorf("authority's key %q is written as %q", s, k.Text())
		}
		if k, err := trust.ParseCAPublic(s); err == nil && k.String() != trimmed {
			t.Errorf("authority's public key %q is written as %q", s, k)
		}
	})
}
