package stream

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

func TestAHostNamesAService(t *testing.T) {
	for _, c := range []struct {
		host string
		port uint16
		want string
	}{
		{"http.0.web.weft", 80, "web/0:http"},
		{"http.0.web", 80, "web/0:http"},
		{"3.web.weft", 8080, "web/3:8080"},
		{"80.0.web.weft", 443, "web/0:80"},
		{"http.0.web.weft.", 80, "web/0:http"},
		{"0.web.WEFT", 80, "web/0:80"},
		{"Http.0.Web.Weft.", 80, "web/0:Http"},
		{"0.web.example", 80, "web.example/0:80"},
		{"http.4294967295.my-web_1.example.weft", 80, "my-web_1.example/4294967295:http"},
		{"http.0.a.weft.weft", 80, "a.weft/0:http"},
		{"3.0.weft", 80, "0/3:80"},
	} {
		got, err := ParseHost(c.host, c.port)
		if err != nil || got.String() != c.want {
			t.Errorf("%q, port %d: %q, %v; expected %q", c.host, c.port, got, err, c.want)
		}
	}
}

func TestAHostThatNamesNoServiceIsABadArgument(t *testing.T) {
	for _, host := range []string{"", ".", "weft", ".weft", "web.weft", "0.weft", "http.x.web.weft", ".0.web", "10.0.0.1", "10.0.0.1.", "::1", "http.-1.web.weft",
		"http.07.web.weft", "http.4294967296.web.weft", "ht tp.0.web.weft", "a/b.0.web.weft", "http.0.wéb.weft", "http.0." + strings.Repeat("a", 25) + ".weft",
		strings.Repeat("s", 256) + ".0.web.weft", strings.Repeat("0.", 1<<16)} {
		got, err := ParseHost(host, 80)
		if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "SERVICE.INDEX.APP.weft") || len(err.Error()) > 1000 {
			t.Errorf("%.80q: %q, %v; expected %v that shows the form", host, got, err, weft.ErrBadArgument)
		}
	}
}

func TestADialTakesBothFormsOfAnAddress(t *testing.T) {
	for in, want := range map[string]string{
		"app/0:http":          "app/0:http",
		"app/0:a.b:c/d":       "app/0:a.b:c/d",
		"http.0.app.weft:80":  "app/0:http",
		"0.app.weft:443":      "app/0:443",
		"http.0.app.weft.:80": "app/0:http",
	} {
		if got, err := parseTarget(in); err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; expected %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                      "expected PROCESS:SERVICE",
		"app":                   "or HOST:PORT, as in http.0.app.weft:80",
		"http.0.app.weft":       "or HOST:PORT, as in http.0.app.weft:80",
		"app/0":                 "has no service",
		"app/0:":                "expected 1 to 255",
		"app/x:http":            "expected a decimal index",
		"App/0:http":            `address "App/0:http"`,
		"http.0.app.weft:":      `port ""; expected a number from 0 to 65535`,
		"http.0.app.weft:http":  `port "http"; expected a number from 0 to 65535`,
		"http.0.app.weft:70000": `port "70000"; expected a number from 0 to 65535`,
		"example.com:80":        `host "example.com" names no service`,
		"10.0.0.1:80":           `host "10.0.0.1" names no service`,
		"[::1]:80":              `host "::1" names no service`,
	} {
		got, err := parseTarget(in)
		if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; expected %v with %q", in, got, err, weft.ErrBadArgument, want)
		}
	}
}

func TestAnAddressHasAHostUnlessAURLCannotHoldIt(t *testing.T) {
	for in, want := range map[string]string{
		"web/0:http":      "http.0.web.weft",
		"web.a-b_c/7:80":  "80.7.web.a-b_c.weft",
		"0.web/3:http":    "http.3.0.web.weft",
		"a.weft/0:x":      "x.0.a.weft.weft",
		"web/0:HTTP":      "HTTP.0.web.weft",
		"web/0:http.a":    "",
		"web/0:a/b":       "",
		"web/0:a b":       "",
		"web/0:#7":        "",
		"web/0:localhost": "localhost.0.web.weft",
	} {
		a, err := ParseAddr(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Host(); got != want {
			t.Errorf("the host of %q is %q; expected %q", in, got, want)
		}
	}
	if got := (Addr{}).Host(); got != "" {
		t.Errorf("the zero Addr has the host %q", got)
	}
}

// If ParseHost accepts a host, ParseHost and ParseAddr must read the same address again from each
// form of the address.
func FuzzParseHost(f *testing.F) {
	for _, host := range []string{"http.0.web.weft", "0.web.weft", "80.0.web", "Http.0.Web.Weft.", "10.0.0.1", "3.0.weft", "a/b.0.web", "http.0.web..weft", "%.0.a"} {
		f.Add(host, uint16(80))
	}
	f.Fuzz(func(t *testing.T, host string, port uint16) {
		a, err := ParseHost(host, port)
		if err != nil {
			if !errors.Is(err, weft.ErrBadArgument) || a != (Addr{}) {
				t.Fatalf("%q, port %d: %v, %v; expected %v alone", host, port, a, err, weft.ErrBadArgument)
			}
			return
		}
		if again, err := ParseAddr(a.String()); err != nil || again != a {
			t.Errorf("%q, port %d, is %v, which is read as %v, %v", host, port, a, again, err)
		}
		if a.Host() == "" {
			t.Fatalf("%q, port %d, is %v, which has no host", host, port, a)
		}
		for _, target := range []string{a.String(), net.JoinHostPort(a.Host(), "443"), net.JoinHostPort(host, strconv.Itoa(int(port)))} {
			if again, err := parseTarget(target); err != nil || again != a {
				t.Errorf("%q, port %d, is %v; a dial to %q is read as %v, %v", host, port, a, target, again, err)
			}
		}
	})
}
