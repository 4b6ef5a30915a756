package vni

import (
	"strings"
	"testing"
)

func TestNamesReadAndWriteTheSame(t *testing.T) {
	for _, s := range []string{"a/0", "app/3", "my-app.v2_x/4294967295", strings.Repeat("x", 24) + "/1"} {
		n, err := ParseName(s)
		if err != nil || n.String() != s || !n.Valid() || n.IsZero() {
			t.Errorf("%q: %v, %v", s, n, err)
		}
		var back Name
		back.setWords(n.words())
		if back.App != n.App {
			t.Errorf("%q comes back from words as %v", s, back)
		}
	}
	if AnyProcess.String() != "any" || AnyProcess.Valid() {
		t.Error("the zero name must be AnyProcess and not valid")
	}
}

func TestWrongNamesAreRefusedByName(t *testing.T) {
	for _, s := range []string{"", "app", "app/", "/3", "app/03", "app/+3", "app/-1", "app/4294967296", "App/1", "a b/1", "a\x00b/1", "a\x00/1",
		strings.Repeat("x", 25) + "/1", "a/1/2", "é/1"} {
		if n, err := ParseName(s); err == nil {
			t.Errorf("%q parsed as %v", s, n)
		} else if s != "" && !strings.Contains(err.Error(), "process name") {
			t.Errorf("%q: error does not say what it is about: %v", s, err)
		}
	}
}

func TestNamesAreOrderedByApplicationThenIndex(t *testing.T) {
	list := []string{"a/0", "a/2", "a/10", "ab/0", "b/0"}
	for i, x := range list {
		for j, y := range list {
			n, _ := ParseName(x)
			m, _ := ParseName(y)
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := n.Compare(m); got != want {
				t.Errorf("%s against %s: %d, want %d", x, y, got, want)
			}
		}
	}
}
