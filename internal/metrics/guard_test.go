package metrics

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
)

const secretToken = "0123456789abcdef0123456789abcdef"

func token(t *testing.T) Token {
	t.Helper()
	k, err := ParseToken(secretToken + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAVisitorWithoutTheRoleGets403(t *testing.T) {
	withToken := loopback()
	withToken.Token = token(t)
	const profile = "/debug/pprof/cmdline"
	for _, c := range []struct {
		name   string
		config Config
		page   string
		change func(*http.Request)
		want   int
	}{
		{"loopback reads metrics", loopback(), metricsPath, nil, 200},
		{"loopback checks health", loopback(), healthPath, nil, 200},
		{"loopback by IP", loopback(), readyPath, host("[::1]:80"), 200},
		{"loopback makes no profile", loopback(), profile, nil, 403},
		{"a name that leads to loopback", loopback(), metricsPath, host("evil.example:7702"), 403},
		{"an IP of another host", loopback(), metricsPath, host("10.0.0.1"), 403},
		{"the token", withToken, metricsPath, bearer(secretToken), 200},
		{"the token, by any name", withToken, healthPath, func(r *http.Request) { bearer(secretToken)(r); r.Host = "h" }, 200},
		{"the token makes profiles", withToken, profile, bearer(secretToken), 200},
		{"no token", withToken, metricsPath, nil, 403},
		{"no token, health", withToken, healthPath, nil, 403},
		{"another token", withToken, metricsPath, bearer(secretToken[1:] + "0"), 403},
		{"a part of the token", withToken, metricsPath, bearer(secretToken[:31]), 403},
		{"an empty token", withToken, metricsPath, bearer(""), 403},
		{"another scheme", withToken, metricsPath,
			func(r *http.Request) { r.Header.Set("Authorization", "Basic "+secretToken) }, 403},
		{"the unix socket", unixSocket(t), metricsPath, host("anything"), 200},
		{"the unix socket makes profiles", unixSocket(t), profile, nil, 200},
		{"no such page", loopback(), "/etc/passwd", nil, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.config, daemonOf(nicOf(t, "udp", 0)))
			if c.change == nil {
				c.change = func(*http.Request) {}
			}
			if got, body := s.get(c.page, c.change); got != c.want {
				t.Errorf("status %d, %s; want %d", got, body, c.want)
			}
		})
	}
}

func TestRefusedVisitorsAreCountedAndLoggedAtABoundedRate(t *testing.T) {
	var log bytes.Buffer
	c := loopback()
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := serve(t, c, daemonOf(nicOf(t, "udp", 0)))
	for range 100 {
		s.get("/debug/pprof/heap")
	}
	const series = `weft_metrics_requests_total{code="403",page="/debug/pprof/"}`
	if got := s.value(series); got != "100" {
		t.Errorf("%s is %s; want 100", series, got)
	}
	if n := strings.Count(log.String(), "refused"); n == 0 || n > 50 {
		t.Errorf("100 refusals are %d lines in the log; want some, and not one each", n)
	}
	if strings.Contains(log.String(), "heap") {
		t.Error("the log has what the visitor asked for, which may be anything")
	}
}

func TestTheSocketIsOfThisUserAlone(t *testing.T) {
	c := unixSocket(t)
	serve(t, c, daemonOf(nicOf(t, "udp", 0)))
	st, err := os.Stat(c.Address.Path)
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v; want a socket of mode 0600", st.Mode(), err)
	}
}

func TestAnAddressForOtherHostsNeedsAToken(t *testing.T) {
	for _, text := range []string{":7702", "0.0.0.0:7702", "[::]:7702", "10.0.0.1:7702"} {
		a, err := ParseAddress(text, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := (Config{Address: a}).Check(); err == nil || !strings.Contains(err.Error(), "metrics_token_file") {
			t.Errorf("%s: %v; want the cure", text, err)
		}
		if err := (Config{Address: a, Token: token(t)}).Check(); err != nil {
			t.Errorf("%s with a token: %v", text, err)
		}
	}
	if err := (Config{Token: token(t)}).Check(); err == nil {
		t.Error("a token without an address is accepted")
	}
}

func TestAnAddressIsReadOrRefusedWithWhatWasExpected(t *testing.T) {
	for text, want := range map[string]Address{
		"": {}, "off": {}, "unix": {Path: "/state/metrics.sock"}, "unix:/run/m": {Path: "/run/m"},
		"localhost:7702": {TCP: netip.MustParseAddrPort("127.0.0.1:7702")},
		"127.0.0.1:7702": {TCP: netip.MustParseAddrPort("127.0.0.1:7702")},
		"[::1]:7702":     {TCP: netip.MustParseAddrPort("[::1]:7702")},
		":7702":          {TCP: netip.MustParseAddrPort("[::]:7702")},
	} {
		if got, err := ParseAddress(text, "/state"); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"on", "7702", "host.example:7702", "127.0.0.1", "127.0.0.1:70000", "unix:", "unix:@abstract"} {
		if got, err := ParseAddress(text, "/state"); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%q is %v, %v; want an error that says what was expected", text, got, err)
		}
	}
}

func TestAWeakTokenIsRefused(t *testing.T) {
	for _, text := range []string{"", "short", "two lines of\n0123456789abcdef", strings.Repeat("x", 513), "0123456789abcdeé"} {
		if _, err := ParseToken(text); err == nil || !strings.Contains(err.Error(), "expected one line") {
			t.Errorf("%.20q: %v; want an error that says what was expected", text, err)
		}
	}
}
