package stream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/weftnet/weft"
)

// A request to the result of Host must reach the address whose Host was called. Otherwise Host
// must refuse.
func TestAHostSurvivesAURL(t *testing.T) {
	refused := 0
	for _, service := range []string{"http", "HTTP", "a_b", "a+b", "a;b", "a~b", "80", "a^b", "a|b", "a`b", "{x}", "é", "É", "a\"b", "a<b", "\xff", "a\u00adb", "straße", "a.b", "a b"} {
		a := Addr{weft.Name{App: "web"}, service}
		host := a.Host()
		if host == "" {
			refused++
			continue
		}
		if _, err := url.Parse("http://" + host + "/"); err != nil {
			t.Errorf("service %q: host %q: %v", service, host, err)
			continue
		}
		var dialled Addr
		tr := &http.Transport{DialContext: func(_ context.Context, _, s string) (net.Conn, error) {
			dialled, _ = parseTarget(s)
			return nil, errors.New("it was dialled")
		}}
		_, err := (&http.Client{Transport: tr}).Get("http://" + host + "/")
		if dialled != a {
			t.Errorf("service %q: a request to host %q dials %v (%v)", service, host, dialled, err)
		}
	}
	if refused != 13 {
		t.Errorf("%d services have no host; expected 13", refused)
	}
}
