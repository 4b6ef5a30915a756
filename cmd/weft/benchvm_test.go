package main

import (
	"math"
	"testing"
)

func TestBenchVMEndsWithTheGeometricMean(t *testing.T) {
	all := rows(t, "vm", "--time", "5ms", "--json")
	if len(all) != 5 || all[4]["kernel"] != "geometric mean" {
		t.Fatalf("rows %v; expected four kernels and their mean", all)
	}
	for _, field := range []string{"ns_per_op", "ops_per_s", "native_ratio"} {
		product := 1.0
		for _, r := range all[:4] {
			product *= r[field].(float64)
		}
		if mean := all[4][field].(float64); !(mean > 0) || math.Abs(math.Pow(product, 0.25)/mean-1) > 1e-6 {
			t.Errorf("%s: %v is not the geometric mean of %v", field, mean, all[:4])
		}
	}
}
