package wire_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/wire"
)

const documentPath = "../../docs/wire.md"

// row is one line of a table: its cells, without the ticks of code.
type row []string

// document holds the tables of docs/wire.md by the heading above them. Under one heading there
// may be one table of fields and one of other things. The key of the latter is the heading and
// its first column: "Outer header/bit".
type document map[string][]row

var headingLine = regexp.MustCompile(`^#+ +(.*)$`)

func readDocument(t testing.TB) document {
	f, err := os.Open(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc := document{}
	under, key := "", ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if m := headingLine.FindStringSubmatch(line); m != nil {
			under, key = m[1], ""
			continue
		}
		if !strings.HasPrefix(line, "|") {
			key = ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		switch {
		case key == "" && cells[0] == "offset":
			key = under
		case key == "":
			key = under + "/" + cells[0]
		case !strings.HasPrefix(cells[0], "---"):
			doc[key] = append(doc[key], row(cells))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return doc
}

// nested lists the fields that have their own table.
var nested = map[string]string{"record header": "Record header", "envelope": "Envelope", "remote": "Remote", "group header": "Group header"}

// decode reads b by the table under a heading and by nothing else. It is a second implementation
// of this package's parsers, as simple as possible. It finds out whether the document suffices to
// write one.
func (d document) decode(under string, b []byte) (fields, error) {
	means, at := fields{}, 0
	for _, r := range d[under] {
		offset, err := strconv.Atoi(r[0])
		if err != nil || offset != at {
			return nil, fmt.Errorf("%s: %s is at %s, but the field before ends at %d", under, r[2], r[0], at)
		}
		size := len(b) - at
		if r[1] != "…" {
			if size, err = strconv.Atoi(r[1]); err != nil {
				return nil, fmt.Errorf("%s: size of %s: %w", under, r[2], err)
			}
		}
		if at+size > len(b) || size < 0 {
			return nil, fmt.Errorf("%s: ends before %s", under, r[2])
		}
		if err := d.decodeField(means, r, b[at:at+size]); err != nil {
			return nil, fmt.Errorf("%s: %w", under, err)
		}
		at += size
	}
	if at != len(b) {
		return nil, fmt.Errorf("%s: has %d bytes, the document tells of %d", under, len(b), at)
	}
	return means, nil
}

func (d document) decodeField(means fields, r row, b []byte) (err error) {
	name, value := r[2], uint64(0)
	if len(b) <= 8 {
		for i, c := range b {
			value |= uint64(c) << (8 * i)
		}
	}
	switch {
	case name == "zero":
		if strings.Trim(string(b), "\x00") != "" {
			return fmt.Errorf("% x is not zero", b)
		}
	case name == "magic":
		if string(b) != "WF" {
			return fmt.Errorf("% x is not WF", b)
		}
	case nested[name] != "":
		means[name], err = d.decode(nested[name], b)
	case r[1] == "…" || len(b) > 8:
		means[name] = hex.EncodeToString(b)
	case len(b) == 8:
		means[name] = u64(value)
	default:
		means[name] = value
	}
	return err
}

// length returns the end of the table's last field of fixed size.
func (d document) length(t testing.TB, under string) int {
	rows := d[under]
	if len(rows) == 0 {
		t.Fatalf("%s has no table under the heading %q", documentPath, under)
	}
	last := rows[len(rows)-1]
	offset, _ := strconv.Atoi(last[0])
	size, _ := strconv.Atoi(last[1]) // 0 for …
	return offset + size
}

func TestDocumentDecodesWhatTheCodeEncodes(t *testing.T) {
	doc := readDocument(t)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSample(t)
		got, err := doc.decode(s.name, s.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s.means, got); d != "" {
			t.Fatalf("%s: code (-) and document (+) differ:\n%s", s.name, d)
		}
	})
}

func TestDocumentStatesTheLengthsOfTheCode(t *testing.T) {
	doc := readDocument(t)
	want := map[string]int{
		"Outer header": wire.OuterLen, "Tag": wire.TagLen, "Inner header": wire.InnerLen, "Hello": wire.HelloLen,
		"MACs": 2 * wire.MACLen, "Handshake": wire.HandshakeHead, "Cookie": wire.CookieLen, "Rekey": wire.RekeyHead,
		"Probe": wire.ProbeLen, "Part": wire.PartLen, "Datagram": wire.DatagramLen, "Letter": wire.LetterLen, "Ack": (&wire.Ack{}).Len(), "Record header": wire.RecordLen, "Envelope": wire.EnvelopeLen,
	}
	for _, typ := range recordTypes() {
		want[heading(typ)] = typ.HeaderLen()
	}
	for under, n := range want {
		if got := doc.length(t, under); got != n {
			t.Errorf("%s: the code has %d bytes, the document %d", under, n, got)
		}
	}
}

func TestDocumentStatesTheConstantsOfTheCode(t *testing.T) {
	got := map[string]string{}
	for _, r := range readDocument(t)["Constants/name"] {
		got[r[0]] = r[1]
	}
	want := map[string]string{}
	for name, v := range map[string]int{
		"Version": wire.Version, "OuterLen": wire.OuterLen, "InnerLen": wire.InnerLen, "TagLen": wire.TagLen,
		"Overhead": wire.Overhead, "RecordLen": wire.RecordLen, "MaxRecord": wire.MaxRecord, "MaxRun": wire.MaxRun, "EnvelopeLen": wire.EnvelopeLen,
		"HelloLen": wire.HelloLen, "ProbeLen": wire.ProbeLen, "PartLen": wire.PartLen, "PartUnit": wire.PartUnit, "MaxParted": wire.MaxParted, "DatagramLen": wire.DatagramLen, "MaxDatagram": wire.MaxDatagram,
		"ClearLen": wire.ClearLen, "MACLen": wire.MACLen, "HandshakeHead": wire.HandshakeHead, "HandshakeLeast": wire.HandshakeLeast,
		"CookieLen": wire.CookieLen, "RekeyHead": wire.RekeyHead,
		"LetterLen": wire.LetterLen, "MaxLetter": wire.MaxLetter, "MaxAckWords": wire.MaxAckWords, "MaxAckLen": wire.MaxAckLen,
	} {
		want[name] = strconv.Itoa(v)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("constants of code (-) and document (+) differ:\n%s", d)
	}
}

func TestDocumentNamesEveryValue(t *testing.T) {
	doc := readDocument(t)
	// A value that the code does not know prints as a number behind a dash. No known value does.
	known := func(name string) bool { return !strings.ContainsAny(name, "0123456789") && name != "" }
	for under, name := range map[string]func(int) string{
		"Kinds":          func(v int) string { return wire.Kind(v).String() },
		"Record types":   func(v int) string { return wire.Type(v).String() },
		"Ack reasons":    func(v int) string { return wire.AckReason(v).String() },
		"Refuse reasons": func(v int) string { return wire.Reason(v).String() },
	} {
		got, want := map[string]string{}, map[string]string{}
		for _, r := range doc[under+"/value"] {
			got[r[0]] = r[1]
		}
		for v := range 256 {
			if n := name(v); known(n) {
				want[strconv.Itoa(v)] = n
			}
		}
		if d := cmp.Diff(want, got); d != "" || len(got) == 0 {
			t.Errorf("%s of code (-) and document (+) differ:\n%s", under, d)
		}
	}
	for _, r := range doc["Sequence numbers and spaces/value"] {
		if v, err := strconv.Atoi(r[0]); err != nil || v >= wire.Spaces || wire.Space(v).String() != r[1] {
			t.Errorf("the document calls space %s %q", r[0], r[1])
		}
	}
}

func TestDocumentNamesEveryFlag(t *testing.T) {
	doc := readDocument(t)
	for under, want := range map[string]map[string]uint64{
		"Outer header": {"tagged": u(wire.FlagTagged), "sealed": u(wire.FlagSealed), "key-phase": u(wire.FlagPhase), "clear": u(wire.FlagClear)},
		"Inner header": {"ack-command": u(wire.AckCommand), "ack-data": u(wire.AckData)},
		"Flags of records": {"get": u(wire.FlagGet), "reply": u(wire.FlagReply), "accept": u(wire.FlagAccept), "whole": u(wire.FlagWhole),
			"recall": u(wire.FlagRecall), "return": u(wire.FlagReturn), "none": u(wire.FlagNone)},
		"Hello": {"reliable": wire.CapReliable, "aes": wire.CapAES, "plain-programs": wire.CapPlainPrograms},
	} {
		got := map[string]uint64{}
		for _, r := range doc[under+"/bit"] {
			bit, err := strconv.Atoi(r[0])
			if err != nil {
				t.Fatal(err)
			}
			got[r[1]] = 1 << bit
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: flags of code (-) and document (+) differ:\n%s", under, d)
		}
	}
}

func u(flag uint8) uint64 { return uint64(flag) }

// The table of kinds and flags has a row for each rule, and flagsByKind repeats that table. The
// parser must agree on every kind and every byte of flags.
func TestDocumentSaysWhichFlagsAKindTakes(t *testing.T) {
	const sealed, phase, clear = wire.FlagSealed, wire.FlagPhase, wire.FlagClear
	rows := []struct {
		kinds string
		from  []wire.Kind
		flags []uint8
	}{
		{"1 to 10, on a plain link", []wire.Kind{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []uint8{0, wire.FlagTagged}},
		{"hello, hello-ack, finish, cookie, on a sealed link", []wire.Kind{1, 2, 12, 13}, []uint8{sealed}},
		{"data, on a sealed link", []wire.Kind{3}, []uint8{sealed, sealed | phase, sealed | clear, sealed | phase | clear}},
		{"ack, probe, probe-reply, goodbye, part, plain, datagram, rekey, on a sealed link", []wire.Kind{4, 5, 6, 7, 8, 9, 10, 11}, []uint8{sealed, sealed | phase}},
	}
	allowed := map[wire.Kind]map[uint8]bool{}
	var kinds, told []string
	for _, r := range rows {
		kinds = append(kinds, r.kinds)
		for _, k := range r.from {
			for _, f := range r.flags {
				if allowed[k] == nil {
					allowed[k] = map[uint8]bool{}
				}
				allowed[k][f] = true
			}
		}
	}
	for _, r := range readDocument(t)["Outer header/kinds"] {
		told = append(told, r[0])
	}
	if d := cmp.Diff(kinds, told); d != "" {
		t.Errorf("rows of this test (-) and of the document (+) differ:\n%s", d)
	}
	for k := wire.Kind(1); k <= 13; k++ {
		for flags := range 256 {
			b := make([]byte, wire.OuterLen)
			o := wire.Outer{Kind: k, Flags: uint8(flags), Index: 7, Counter: 1}
			if k == wire.KindHello {
				o.Index = 0
			}
			o.Put(b)
			if _, _, err := wire.ParseOuter(b); (err == nil) != allowed[k][uint8(flags)] {
				t.Errorf("%v with flags %04b: %v; the document allows it: %v", k, flags, err, allowed[k][uint8(flags)])
			}
		}
	}
}

// The flags table lists the records that have each flag. CheckRecords must agree on every type
// and bit.
func TestDocumentSaysWhichRecordsTakeAFlag(t *testing.T) {
	allowed := map[string]uint8{}
	for _, r := range readDocument(t)["Flags of records/bit"] {
		bit, _ := strconv.Atoi(r[0])
		for _, typ := range strings.Split(r[2], ", ") {
			allowed[typ] |= 1 << bit
		}
	}
	for _, s := range oneOfEach() {
		for bit := range 8 {
			b := append([]byte(nil), s.bytes...)
			b[1] = 1 << bit
			want := allowed[strings.ToLower(s.name)]&(1<<bit) != 0
			if got := wire.CheckRecords(b) == nil; got != want {
				t.Errorf("%s with flag bit %d: code says good = %v, document %v", s.name, bit, got, want)
			}
		}
	}
}

// The first byte of a Table record tells its meaning. The rest is described in the file that the
// document names.
func TestDocumentListsTheCodesOfTableRecords(t *testing.T) {
	source, err := os.ReadFile("table.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?m)^\tTable\w+ +byte = (\d+)\b`)
	var want []string
	for _, m := range code.FindAllStringSubmatch(string(source), -1) {
		want = append(want, m[1])
	}
	var listed []string
	for _, r := range readDocument(t)["Table/code"] {
		listed = append(listed, r[0])
		drawing, err := os.ReadFile("../../" + r[2])
		if err != nil {
			t.Errorf("code %s: %v", r[0], err)
		} else if !regexp.MustCompile(`//.*\b` + r[0] + `\b`).Match(drawing) {
			t.Errorf("%s draws no record with the code %s", r[2], r[0])
		}
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("codes of internal/wire/table.go and of docs/wire.md (-want +got):\n%s", diff)
	}
}
