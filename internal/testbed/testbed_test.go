package testbed_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

func TestConfigErrorsNameTheFieldAndWhatWasExpected(t *testing.T) {
	for _, c := range []struct {
		config testbed.Config
		want   string
	}{
		{testbed.Config{}, "Hosts is 0, expected 1 to 128"},
		{testbed.Config{Hosts: 129}, "Hosts is 129, expected 1 to 128"},
		{testbed.Config{Hosts: 2, Loss: -0.1}, "Loss is -0.1, expected 0 to 1"},
		{testbed.Config{Hosts: 2, Loss: 1.5}, "Loss is 1.5, expected 0 to 1"},
		{testbed.Config{Hosts: 2, Rates: []int64{999_999}}, "Rates are [999999], expected 1000000 to 10000000000 bits per second"},
		{testbed.Config{Hosts: 3, Rates: []int64{1e7, 1e7}}, "2 Rates of 3 hosts, expected one for each, or one for all"},
		{testbed.Config{Hosts: 2, Loss: math.NaN()}, "Loss is NaN, expected 0 to 1"},
		{testbed.Config{Hosts: 2, Delay: -1}, "Delay is -1ns, expected 0 to 10s"},
		{testbed.Config{Hosts: 2, Jitter: 11 * time.Second}, "Jitter is 11s, expected 0 to 10s"},
		{testbed.Config{Hosts: 2, Duplicate: 1.1}, "Duplicate is 1.1, expected 0 to 1"},
		{testbed.Config{Hosts: 2, Reorder: math.NaN()}, "Reorder is NaN, expected 0 to 1"},
		{testbed.Config{Hosts: 2, MTU: 1279}, "MTU is 1279, expected 0 or 1280 to 65535"},
		{testbed.Config{Hosts: 2, MTU: 65536}, "MTU is 65536, expected 0 or 1280 to 65535"},
	} {
		_, err := testbed.New(c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%+v): error %v, want one with %q", c.config, err, c.want)
		}
		if errors.Is(err, testbed.ErrUnavailable) {
			t.Errorf("New(%+v): a wrong Config passes for a machine without testbeds", c.config)
		}
	}
}
