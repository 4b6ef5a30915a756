package weft_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// keyTexts returns the forms in which a text may show the key of a handle.
func keyTexts(t *testing.T, h weft.Handle) []string {
	t.Helper()
	b, err := h.MarshalBinary()
	if err != nil || len(b) != weft.HandleLen {
		t.Fatalf("a handle is %d bytes, %v; expected %d", len(b), err, weft.HandleLen)
	}
	key := binary.LittleEndian.Uint64(b[24:])
	if key < 1<<32 {
		t.Skip("the key is so short that other numbers may contain it")
	}
	return []string{
		fmt.Sprintf("%d", key), fmt.Sprintf("%x", key), fmt.Sprintf("%X", key), fmt.Sprintf("%o", key),
		fmt.Sprintf("%b", key), fmt.Sprintf("%x", b[24:32]), fmt.Sprintf("%q", b[24:32]), string(b[24:32]),
	}
}

func TestAHandleNeverPrintsItsKey(t *testing.T) {
	_, p, _ := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	region, err := p.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	h := region.Handle()
	share, err := region.Share(0, 8, weft.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	type outer struct{ Exported, hidden weft.Handle }
	texts := map[string]string{"String": h.String()}
	values := map[string]any{
		"a handle": h, "a pointer": &h, "a slice": []weft.Handle{h}, "a map": map[string]weft.Handle{"h": h},
		"a field": outer{h, h}, "a pointer to a field": &outer{h, h}, "an error": fmt.Errorf("with %v", h),
	}
	for what, v := range values {
		for _, verb := range "vsqdxXobctTpeEfFgGUw" {
			for _, flags := range []string{"", "+", "#", " ", "0", "-", "20.3"} {
				format := "%" + flags + string(verb)
				texts[what+" by "+format] = fmt.Sprintf(format, v)
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("text", "value", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("JSON", "value", v)
		texts[what+" in a log"] = log.String()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[what+" in JSON"] = string(b)
	}
	for what, err := range map[string]error{
		"a PUT beyond the end": p.Put(t.Context(), h, 65, []byte{1}),
		"a PUT to another process": p.PeerAt(weft.Address{NIC: 9, Slot: 9, Generation: 9}).
			Put(t.Context(), h, 0, []byte{1}),
		"a PUT into a part that is read-only": p.Put(t.Context(), share.Handle(), 0, []byte{1}),
	} {
		if err == nil {
			t.Fatalf("%s succeeds", what)
		}
		texts["the error of "+what] = err.Error() + fmt.Sprintf("%+v %#v", err, err)
	}
	for what, text := range texts {
		for _, key := range append(keyTexts(t, h), keyTexts(t, share.Handle())...) {
			if strings.Contains(text, key) {
				t.Errorf("%s shows the key %q: %s", what, key, text)
			}
		}
	}
	if len(texts) < 500 {
		t.Errorf("looked at %d texts; the search must be broken", len(texts))
	}
}

func TestAHandleKeepsItsValueInBinaryForm(t *testing.T) {
	ctx, p, q := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	region, err := q.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	h := region.Handle()
	b, err := h.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var same weft.Handle
	if err := same.UnmarshalBinary(b); err != nil || same != h || region.Handle() != h {
		t.Errorf("%v is read as %v, %v", h, same, err)
	}
	b[24]++
	var other weft.Handle
	if err := other.UnmarshalBinary(b); err != nil || other == h {
		t.Errorf("a handle with another key is the same, %v", err)
	}
	if err := p.Put(ctx, same, 0, []byte("x")); err != nil {
		t.Errorf("a PUT by a handle that was sent: %v", err)
	}
	if err := p.Put(ctx, other, 0, []byte("x")); err == nil {
		t.Error("a PUT by a handle with another key succeeds")
	}
	var zero weft.Handle
	if err := p.Put(ctx, zero, 0, []byte("x")); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a PUT by the zero handle: %v; expected %v", err, weft.ErrBadArgument)
	}
	if b, err := zero.MarshalBinary(); err != nil || !bytes.Equal(b, make([]byte, weft.HandleLen)) {
		t.Errorf("the zero handle is %x, %v; expected zeros", b, err)
	}
}

// A text or bytes that no program wrote are an invalid argument, and the error says what is
// expected.
func TestMalformedTextsAreInvalidArguments(t *testing.T) {
	var name weft.Name
	var id weft.NICID
	var link weft.Link
	var h weft.Handle
	parseName := func(s string) error { _, err := weft.ParseName(s); return err }
	parseID := func(s string) error { _, err := weft.ParseNICID(s); return err }
	parseLink := func(s string) error { _, err := weft.ParseLink(s); return err }
	text := func(u interface{ UnmarshalText([]byte) error }) func(string) error {
		return func(s string) error { return u.UnmarshalText([]byte(s)) }
	}
	for what, c := range map[string]struct {
		read func(string) error
		bad  []string
	}{
		"ParseName":           {parseName, badNames},
		"Name.UnmarshalText":  {text(&name), badNames},
		"ParseNICID":          {parseID, badIDs},
		"NICID.UnmarshalText": {text(&id), slices.DeleteFunc(slices.Clone(badIDs), func(s string) bool { return s == weft.NICID(0).String() })},
		"ParseLink":           {parseLink, badLinks}, "Link.UnmarshalText": {text(&link), badLinks},
		"Handle.UnmarshalBinary": {func(s string) error { return h.UnmarshalBinary([]byte(s)) }, badHandles},
	} {
		for _, s := range c.bad {
			err := c.read(s)
			if !errors.Is(err, weft.ErrBadArgument) {
				t.Errorf("%s of %q: %v; expected %v", what, s, err, weft.ErrBadArgument)
				continue
			}
			if !strings.Contains(err.Error(), "expected") {
				t.Errorf("%s of %q fails with %q; expected a text that says what was expected", what, s, err)
			}
		}
	}
	if name != (weft.Name{}) || id != 0 || link != (weft.Link{}) || h != (weft.Handle{}) {
		t.Errorf("malformed texts are read as %v, %v, %v and %v", name, id, link, h)
	}
}

var (
	badNames = []string{"", "a", "/", "/1", "a/", "a/b", "a/-1", "a/01", "a/4294967296", "A/1", "a b/1", "a/1/2", "Any",
		strings.Repeat("a", 25) + "/1", "\x00/1", "a\x00/1", "ä/1"}
	badIDs     = []string{"", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "0:0:0:0:0:0:0:0", "1:2:3:4:5:6:7:256", "1:2:3:4:5:6:7:08", "1:2:3:4:5:6:7:-1"}
	badLinks   = []string{"switch", "10.0.0.1", "xdp:", "xdp:10.0.0.1", "xdp-generic:x", "10.0.0.1:70000", "host name:1", "udp:1.2.3.4:5:6"}
	badHandles = []string{"", "x", strings.Repeat("\x00", weft.HandleLen), strings.Repeat("\x01", weft.HandleLen-1),
		strings.Repeat("\x01", weft.HandleLen), strings.Repeat("\x01", weft.HandleLen+1)}
)

// The link of a Switch exists in one program only, so no file may name it.
func TestTheLinkOfASwitchHasNoTextForm(t *testing.T) {
	l := weft.NewSwitch().Link()
	if b, err := l.MarshalText(); !errors.Is(err, weft.ErrBadArgument) || b != nil {
		t.Errorf("its text is %q, %v; expected %v", b, err, weft.ErrBadArgument)
	}
	if b, err := json.Marshal(l); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("its JSON is %s, %v; expected %v", b, err, weft.ErrBadArgument)
	}
	if l.String() != "switch" {
		t.Errorf("it prints as %q; expected \"switch\"", l)
	}
	for _, l := range []weft.Link{{}, weft.UDP("10.0.0.1:7000"), weft.XDP(":7000"), weft.XDPGeneric("[::1]:7"), weft.SharedMemory("a")} {
		b, err := l.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var same weft.Link
		if err := same.UnmarshalText(b); err != nil || same != l {
			t.Errorf("%v is read as %v, %v", l, same, err)
		}
	}
}
