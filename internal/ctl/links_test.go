package ctl

import (
	"strings"
	"testing"
)

func TestANameOfALinkHasLettersDigitsAndFewSigns(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "z": true, "A": true, "Z": true, "0": true, "9": true, "fast0": true, "a.b_c-d": true,
		strings.Repeat("a", MaxLinkName): true, strings.Repeat("a", MaxLinkName+1): false,
		"": false, ".a": false, "_a": false, "-a": false, "a/b": false, "a b": false, "ä": false,
		"`": false, "{": false, "@": false, "[": false, "/": false, ":": false,
	} {
		if IsLinkName(name) != good {
			t.Errorf("%q names a link: %v; expected %v", name, !good, good)
		}
	}
}

func TestTheLastNumberSignOfASocketSeparatesItsLink(t *testing.T) {
	for in, want := range map[string][2]string{
		"/run/nic.sock":       {"/run/nic.sock", ""},
		"/run/nic.sock#fast0": {"/run/nic.sock", "fast0"},
		"#fast0":              {"", "fast0"},
		"/a#b/nic.sock":       {"/a#b/nic.sock", ""},
		"/a#b/nic.sock#c":     {"/a#b/nic.sock", "c"},
		"/a#b#c":              {"/a#b", "c"},
		"":                    {"", ""},
	} {
		if path, link := CutLink(in); path != want[0] || link != want[1] {
			t.Errorf("%q: socket %q, link %q; expected %q", in, path, link, want)
		}
	}
}

// If a program names its socket, the environment must not change its link.
func TestTheEnvironmentNamesTheLinkOnlyOfClientsThatNameNeither(t *testing.T) {
	for _, c := range []struct{ socketEnv, linkEnv, socket, link, path, want string }{
		{"", "", "/s", "", "/s", ""},
		{"", "", "/s#a", "", "/s", "a"},
		{"", "", "/s#a", "b", "/s", "b"},
		{"/e#x", "y", "/s", "", "/s", ""},
		{"/e#x", "y", "#a", "", "", "a"},
		{"/e#x", "y", "", "b", "", "b"},
		{"/e#x", "y", "", "", "", "x"},
		{"/e", "y", "", "", "", "y"},
		{"", "y", "", "", "", "y"},
		{"/e", "", "", "", "", ""},
	} {
		t.Setenv(socketVariable, c.socketEnv)
		t.Setenv(LinkVariable, c.linkEnv)
		if path, link := chooseLink(c.socket, c.link); path != c.path || link != c.want {
			t.Errorf("%+v: dials %q for link %q", c, path, link)
		}
	}
}
