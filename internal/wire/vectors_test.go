package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

var update = flag.Bool("update", false, "rewrite docs/wire/vectors.json")

const vectorsPath = "../../docs/wire/vectors.json"

type vectors struct {
	About    string           `json:"about"`
	Version  int              `json:"version"`
	Good     []goodVector     `json:"good"`
	Bad      []badVector      `json:"bad"`
	Sequence []sequenceVector `json:"sequence"`
	Relay    relayVector      `json:"relay"`
}

type goodVector struct {
	Name    string `json:"name"`
	Note    string `json:"note,omitempty"`
	Frame   string `json:"frame"`
	Cookie  string `json:"cookie"`
	Fabric  string `json:"fabric,omitempty"`
	Decoded parts  `json:"decoded"`
}

// parts is a decoded frame. Only the body of the frame's kind is set.
type parts struct {
	Kind      string   `json:"kind"`
	Outer     fields   `json:"outer"`
	Hello     fields   `json:"hello,omitempty"`
	Handshake fields   `json:"handshake,omitempty"`
	Flood     fields   `json:"cookie,omitempty"` // the body of a Cookie
	Ack       fields   `json:"ack,omitempty"`
	Probe     fields   `json:"probe,omitempty"`
	Part      fields   `json:"part,omitempty"`
	Datagram  fields   `json:"datagram,omitempty"`
	Inner     fields   `json:"inner,omitempty"`
	Records   []fields `json:"records,omitempty"`
	Tag       fields   `json:"tag,omitempty"`
	MACs      fields   `json:"macs,omitempty"`
}

type badVector struct {
	Name   string `json:"name"`
	Frame  string `json:"frame"`
	Cookie string `json:"cookie"`
	Fabric string `json:"fabric,omitempty"`
	Error  string `json:"error"`
}

type sequenceVector struct {
	A       uint32 `json:"a"`
	B       uint32 `json:"b"`
	Sub     int    `json:"a_minus_b"`
	ABefore bool   `json:"a_before_b"`
}

// plain returns v as JSON sees it: with ordered keys and one kind of number.
func plain(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	b, err := os.ReadFile(vectorsPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVectorsAreWhatTheCodeWrites(t *testing.T) {
	want := plain(t, makeVectors())
	if *update {
		if err := os.WriteFile(vectorsPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(vectorsPath)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("%s is not what the code writes; if the format was meant to change, run this test with -update:\n%s", vectorsPath, d)
	}
}

// errMAC is the error for a handshake frame whose mac1 does not verify. This package leaves that
// check to its callers.
var errMAC = errors.New("mac1 does not verify")

// take parses a whole frame as a receiver with this cookie and this fabric key does: outer
// header, tag or MACs, body.
func take(frame []byte, cookie uint64, fabric []byte) (p parts, err error) {
	o, _, err := wire.ParseOuter(frame)
	if err != nil {
		return p, err
	}
	p.Kind, p.Outer = o.Kind.String(), outerSample(o).means
	if o.Flags&wire.FlagSealed != 0 {
		return p, p.takeHandshake(o.Kind, frame, fabric)
	}
	if o.Flags&wire.FlagTagged != 0 {
		n, err := wire.Open(frame, cookie)
		if err != nil {
			return p, err
		}
		p.Tag = tagSample(frame[:n], cookie).means
		frame = frame[:n]
	}
	return p, p.takeBody(o.Kind, frame[wire.OuterLen:])
}

func (p *parts) takeHandshake(k wire.Kind, frame, fabric []byte) error {
	n := len(frame) - 2*wire.MACLen
	if len(frame) < wire.HandshakeLeast {
		return errMAC
	}
	macs := macsSample(frame[:n], fabric, nil)
	if !bytes.Equal(macs.bytes, frame[n:]) {
		return errMAC
	}
	p.MACs = macs.means
	body := frame[wire.OuterLen:n]
	if k == wire.KindCookie {
		c, err := wire.ParseCookie(body)
		p.Flood = cookieFields(c)
		return err
	}
	h, err := wire.ParseHandshake(body)
	if err == nil {
		p.Handshake = handshakeFields(h, len(body)-h.Len())
	}
	return err
}

func (p *parts) takeBody(k wire.Kind, body []byte) error {
	switch k {
	case wire.KindHello, wire.KindHelloAck:
		h, err := wire.ParseHello(body)
		p.Hello = helloFields(h)
		return err
	case wire.KindAck:
		var a wire.Ack
		err := a.Parse(body)
		if err == nil {
			p.Ack = ackFields(&a)
		}
		return err
	case wire.KindProbe, wire.KindProbeReply:
		pr, err := wire.ParseProbe(body)
		if err == nil {
			p.Probe = probeFields(pr)
		}
		return err
	case wire.KindPart:
		pt, payload, err := wire.ParsePart(body)
		if err == nil {
			p.Part = partFields(pt, payload)
		}
		return err
	case wire.KindDatagram:
		d, payload, err := wire.ParseDatagram(body)
		if err == nil {
			p.Datagram = datagramFields(d, payload)
		}
		return err
	case wire.KindPlain:
		err := wire.CheckRecords(body)
		if err == nil {
			p.takeRecords(body)
		}
		return err
	case wire.KindData:
		h, rest, err := wire.ParseInner(body)
		p.Inner = innerFields(h)
		p.takeRecords(rest)
		return err
	}
	return nil
}

func (p *parts) takeRecords(b []byte) {
	for _, r := range records(b) {
		p.Records = append(p.Records, parsedRecord(r).means)
	}
}

func TestGoodVectorsAreTakenAndMeanWhatTheySay(t *testing.T) {
	for _, v := range readVectors(t).Good {
		b, cookie := unhex(t, v.Frame), number(t, v.Cookie)
		got, err := take(b, cookie, unhex(t, v.Fabric))
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if d := cmp.Diff(plain(t, v.Decoded), plain(t, got)); d != "" {
			t.Errorf("%s: vector (-), parser (+):\n%s", v.Name, d)
		}
	}
}

func TestGoodVectorsMeanTheSameByTheDocumentAlone(t *testing.T) {
	doc := readDocument(t)
	for _, v := range readVectors(t).Good {
		got, err := doc.take(unhex(t, v.Frame))
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if d := cmp.Diff(plain(t, v.Decoded), plain(t, got)); d != "" {
			t.Errorf("%s: vector (-), document (+):\n%s", v.Name, d)
		}
	}
}

// take decodes a good frame by the tables of the document alone.
func (d document) take(b []byte) (p parts, err error) {
	get := func(under string, n int) (f fields) {
		if err == nil && n <= len(b) {
			f, err = d.decode(under, b[:n])
			b = b[n:]
		}
		return f
	}
	name := func(under string, value uint64) string {
		for _, r := range d[under+"/value"] {
			if r[0] == strconv.FormatUint(value, 10) {
				return r[1]
			}
		}
		return ""
	}
	p.Outer = get("Outer header", 16)
	p.Kind = name("Kinds", p.Outer["version and kind"].(uint64)%16)
	if p.Outer["flags"].(uint64)&1 != 0 {
		rest := b
		b = rest[len(rest)-16:]
		p.Tag = get("Tag", 16)
		b = rest[:len(rest)-16]
	}
	if p.Outer["flags"].(uint64)&2 != 0 {
		rest := b
		b = rest[len(rest)-32:]
		p.MACs = get("MACs", 32)
		b = rest[:len(rest)-32]
		if p.Kind == "cookie" {
			p.Flood = get("Cookie", len(b))
		} else {
			p.Handshake = get("Handshake", len(b))
		}
		return p, err
	}
	switch p.Kind {
	case "hello", "hello-ack":
		p.Hello = get("Hello", len(b))
	case "ack":
		p.Ack = get("Ack", len(b))
	case "probe", "probe-reply":
		p.Probe = get("Probe", len(b))
	case "part":
		p.Part = get("Part", len(b))
	case "datagram":
		p.Datagram = get("Datagram", len(b))
	case "data", "plain":
		if p.Kind == "data" {
			p.Inner = get("Inner header", 16)
		}
		for len(b) > 0 && err == nil {
			typ := name("Record types", uint64(b[0]))
			p.Records = append(p.Records, get(strings.ToUpper(typ[:1])+typ[1:], int(b[2])+256*int(b[3])))
		}
	}
	return p, err
}

func TestBadVectorsAreDroppedForTheirReason(t *testing.T) {
	causes := map[string]error{"short": wire.ErrShort, "magic": wire.ErrMagic, "version": wire.ErrVersion, "kind": wire.ErrKind,
		"tag": wire.ErrTag, "malformed": wire.ErrFormat, "mac": errMAC}
	for _, v := range readVectors(t).Bad {
		if _, err := take(unhex(t, v.Frame), number(t, v.Cookie), unhex(t, v.Fabric)); err == nil || !errors.Is(err, causes[v.Error]) {
			t.Errorf("%s: %v, want %v", v.Name, err, causes[v.Error])
		}
	}
}

func TestSequenceVectorsHold(t *testing.T) {
	for _, v := range readVectors(t).Sequence {
		a, b := wire.Seq(v.A), wire.Seq(v.B)
		if a.Sub(b) != v.Sub || a.Before(b) != v.ABefore {
			t.Errorf("%d and %d: difference %d, before %v; want %d, %v", a, b, a.Sub(b), a.Before(b), v.Sub, v.ABefore)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func number(t *testing.T, s string) uint64 {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var takenApart = regexp.MustCompile("(?s)A frame taken apart.*?```\n(.*?)```")

func TestTheFrameTakenApartIsTheVector(t *testing.T) {
	text, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, line := range strings.Split(takenApart.FindStringSubmatch(string(text))[1], "\n") {
		digits, _, _ := strings.Cut(line, "  ")
		got.WriteString(strings.ReplaceAll(digits, " ", ""))
	}
	for _, v := range readVectors(t).Good {
		if v.Name == "data: one frag" && v.Frame != got.String() {
			t.Errorf("the document takes apart\n%s, the vector is\n%s", got.String(), v.Frame)
		}
	}
}

// The vectors' note on selective bits, computed as a reader would.
func TestSelectiveBitsStandForTheSegmentsThatTheDocumentSays(t *testing.T) {
	for _, v := range readVectors(t).Good {
		if v.Name != "ack: a gap in each space" {
			continue
		}
		var a wire.Ack
		b := unhex(t, v.Frame)
		if err := a.Parse(b[wire.OuterLen : len(b)-wire.TagLen]); err != nil {
			t.Fatal(err)
		}
		var got [wire.Spaces][]wire.Seq
		for s := range a.Selective {
			for n := range limits.Window { // ack + 2 + 64·w + i
				if a.Words[s] > n/64 && a.Selective[s][n/64]>>(n%64)&1 != 0 {
					got[s] = append(got[s], a.Ack[s].Add(2+n))
				}
			}
		}
		if want := [wire.Spaces][]wire.Seq{{102, 105}, {64, 65}}; !cmp.Equal(got, want) {
			t.Errorf("segments %v, want %v", got, want)
		}
		return
	}
	t.Fatal("no such vector")
}

func TestVectorsHaveNoNameTwice(t *testing.T) {
	seen, v := map[string]bool{}, readVectors(t)
	for _, g := range v.Good {
		v.Bad = append(v.Bad, badVector{Name: g.Name})
	}
	for _, b := range v.Bad {
		if seen[b.Name] {
			t.Errorf("two vectors are called %q", b.Name)
		}
		seen[b.Name] = true
	}
}
