package registry

import (
	"strings"
	"testing"
)

func TestAnAddressMayNameItsHostAndLackItsPort(t *testing.T) {
	for s, want := range map[string]string{
		"10.0.0.2": "10.0.0.2:7700", "10.0.0.2:1": "10.0.0.2:1", "fe80::2": "[fe80::2]:7700", "[fe80::2]": "[fe80::2]:7700", "[fe80::2]:1": "[fe80::2]:1",
		"::1": "[::1]:7700", "[fe80::1%eth0]": "[fe80::1%eth0]:7700", "fe80::1%eth0": "[fe80::1%eth0]:7700", "[fe80::1%eth0]:1": "[fe80::1%eth0]:1",
		"::ffff:10.0.0.2": "10.0.0.2:7700", "[::ffff:10.0.0.2]": "10.0.0.2:7700",
		"localhost": "127.0.0.1:7700", "localhost:1": "127.0.0.1:1",
	} {
		if at, err := Resolve(s, 7700); err != nil || at.String() != want {
			t.Errorf("%s is %v, %v; expected %s", s, at, err, want)
		}
	}
	for s, want := range map[string]string{
		"10.0.0": "expected HOST or HOST:PORT", "10.0.0.300:1": "expected HOST or HOST:PORT", "localhost:x": "expected HOST or HOST:PORT", "localhost:70000": "a PORT up to 65535", "": "expected HOST or HOST:PORT",
		":1": "expected HOST or HOST:PORT", "a/b": "expected HOST or HOST:PORT", "a b:1": "expected HOST or HOST:PORT", "-a:1": "expected HOST or HOST:PORT", "localhost:": "expected HOST or HOST:PORT",
		"[::1": "expected HOST or HOST:PORT", "[10.0.0.2]": "expected HOST or HOST:PORT", strings.Repeat("a.", 127) + "invalid": "expected HOST or HOST:PORT",
		"nowhere.invalid:1": `"nowhere.invalid:1": the lookup of its host name failed`,
	} {
		if at, err := Resolve(s, 7700); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %v, %v; expected an error with %q", s, at, err, want)
		}
	}
}
