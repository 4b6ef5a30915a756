package ctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestMalformedRequestsAreRefusedWithTheReason(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, "EOF"},
		{`{`, "unexpected EOF"},
		{`[]`, "cannot unmarshal array"},
		{`{"version":1,"op":"stat"}{}`, "something follows"},
		{`{"version":1,"op":"stat","colour":1}`, `unknown field "colour"`},
		{`{"version":2,"op":"stat"}`, "got version 2, this daemon has 1"},
		{`{"version":1,"op":"fly"}`, `unknown operation "fly"`},
		{`{"version":1,"op":"attach"}`, `"attach" comes without its arguments`},
		{`{"version":1,"op":"nodes","from":-1}`, "from entry -1"},
		{`{"version":1,"op":"attach","attach":{"name":7}}`, "cannot unmarshal number"},
		{`{"version":1,"op":"stat"}` + strings.Repeat(" ", MaxMessage), "at most 65536"},
	} {
		_, err := DecodeRequest([]byte(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v; want %q", c.in, err, c.want)
		}
		if !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrVersion) {
			t.Errorf("%.60s: %v is no sentinel's", c.in, err)
		}
	}
}

func TestEveryTruncatedPrefixOfARequestIsRefused(t *testing.T) {
	b, err := json.Marshal(&Request{Version: Version, Op: OpAttach, From: 3,
		Attach: &Attach{Name: "app/3", Geometry: &Geometry{Commands: 256, Contexts: 64, Descriptors: 16, PoolPages: 256}}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		if _, err := DecodeRequest(b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a request", n, len(b))
		}
	}
	if r, err := DecodeRequest(b); err != nil || r.Attach.Geometry.PoolPages != 256 {
		t.Errorf("the whole is refused: %v", err)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"version":1,"op":"attach","attach":{"name":"app/3"}}`))
	f.Add([]byte(`{"version":1,"op":"alloc","alloc":{"bytes":4096}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRequest(b)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		q, err := DecodeRequest(again)
		if err != nil {
			t.Fatalf("what was read, %s, is refused when written again: %v", again, err)
		}
		if third, _ := encode(q); !bytes.Equal(again, third) {
			t.Fatalf("%s became %s", again, third)
		}
	})
}
