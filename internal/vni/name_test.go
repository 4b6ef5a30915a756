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

func TestANameIsItselfAndNoOtherByAByte(t *testing.T) {
	n, err := MakeName("abcdefghijklmnopqrstuvwx", 0x01020304)
	if err != nil {
		t.Fatal(err)
	}
	if m := n; !n.Is(&m) {
		t.Errorf("%v is not itself", n)
	}
	for i := range n.App {
		m := n
		if m.App[i]++; n.Is(&m) || m.Is(&n) {
			t.Errorf("%v is %v, which differs at byte %d", n, m, i)
		}
		if m = (Name{}); m.IsZero() {
			m.App[i] = 1
		}
		if m.IsZero() {
			t.Errorf("%v is zero though its byte %d is not", m, i)
		}
	}
	for i := range 32 {
		m := n
		if m.Index ^= 1 << i; n.Is(&m) {
			t.Errorf("%v is %v", n, m)
		}
		if m = (Name{Index: 1 << i}); m.IsZero() {
			t.Errorf("a name of index %d is zero", m.Index)
		}
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
