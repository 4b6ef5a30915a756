package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestRatesAreKeptAsWeftPrintsThem(t *testing.T) {
	weft := fakeWeft(t, `[ "$*" = "bench netstar --rate 10,100Mbit --time 1ms --json" ] && echo '{"rate":10000000,"size":64}' && echo '{"rate":100000000,"size":64}'`)
	var out bytes.Buffer
	if err := runRates(t.Context(), short(t, "--rates", "10,100Mbit", "--time", "1ms", "--weft", weft), &out); err != nil {
		t.Fatal(err)
	}
	var r ratesResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Rows) != 2 || !strings.Contains(string(r.Rows[1]), "100000000") || r.Machine.Cores < 1 || r.Date == "" {
		t.Errorf("kept %s, %v", out.Bytes(), err)
	}
	for _, script := range []string{"echo why >&2; exit 1", "echo nonsense", "echo '{}'", "true"} {
		err := runRates(t.Context(), short(t, "--rates", "10Mbit", "--weft", fakeWeft(t, script)), io.Discard)
		if err == nil || !strings.Contains(err.Error(), "bench netstar --rate 10Mbit") {
			t.Errorf("of %q comes %v", script, err)
		}
	}
}
