package file

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryKeyHasItsLine(t *testing.T) {
	got := LinesOf([]byte(`# a comment
id = "x"
text = """
two = 2
"""
a.b = 1
list = [
  1, # one
  2,
]

[[node]]
name = "first"
[[node]]
name = "second"
at = { x = 1 }

[ links."fast 0" ]
mtu = 1
`))
	want := Lines{"id": 2, "text": 3, "a.b": 6, "list": 7, "node.0": 12, "node.0.name": 13, "node.1": 14, "node.1.name": 15, "node.1.at": 16, "links.fast 0": 18, "links.fast 0.mtu": 19}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAMistakeHasTheLineOfItsKeyOrTable(t *testing.T) {
	l := LinesOf([]byte("x = 1\n[gossip]\nlisten = 2\n"))
	l.Overridden("x")
	wrong := errors.New("wrong")
	for key, want := range map[string]string{"gossip.listen": "line 3: wrong", "gossip.seeds": "line 2: wrong", "x": "wrong", "y": "wrong", "": "wrong"} {
		err := l.At(key, wrong)
		if fmt.Sprint(err) != want || !errors.Is(err, wrong) {
			t.Errorf("%q: %v; expected %s", key, err, want)
		}
	}
	if err := l.At("gossip.listen", nil); err != nil {
		t.Errorf("%v of what is right", err)
	}
	if err := Lines(nil).At("x", wrong); err != wrong {
		t.Errorf("%v without a file", err)
	}
}

func FuzzLinesOf(f *testing.F) {
	f.Add([]byte("x = 1\n[[node]]\naddress = \"10.0.0.2\"\n[gossip]\nseeds = [\n\"a\"]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var into map[string]any
		if DecodeTOML(b, &into, "") != nil {
			return
		}
		lines := LinesOf(b)
		for key := range into {
			found := false
			for k := range lines {
				found = found || len(k) >= len(key) && k[:len(key)] == key
			}
			if !found {
				t.Errorf("%q has no line", key)
			}
		}
		for key, line := range lines {
			if line < 1 || line > len(b)+1 {
				t.Errorf("%q is on line %d", key, line)
			}
		}
	})
}
