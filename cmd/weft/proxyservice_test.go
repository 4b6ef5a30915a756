package main

import "testing"

func TestANameOfAHostMeansAService(t *testing.T) {
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
		{"web.weft", 80, ""},
		{"3.0.weft", 80, "0/3:80"},
		{"0.weft", 80, ""},
		{".weft", 80, ""},
		{"http.x.web.weft", 80, ""},
		{"", 80, ""},
		{".0.web", 80, ""},
		{"10.0.0.1", 80, ""},
		{"10.0.0.1.", 80, ""},
	} {
		got, err := proxyService(c.host, c.port)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q, port %d: %q, %v; expected %q", c.host, c.port, got, err, c.want)
		}
	}
}
