package sim

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestAConfigurationOfWhichNoFabricCanBeMadePanicsWithTheField(t *testing.T) {
	for want, make := range map[string]func(){
		"Config.NICs is -1; expected 1 to ":                func() { New(Config{NICs: -1}) },
		"Config.Link.MTU is 5; expected ":                  func() { New(Config{Link: Link{MTU: 5}}) },
		"Config.Link.Latency is -1s; expected 0 or more":   func() { New(Config{Link: Link{Latency: -time.Second}}) },
		"Config.Faults.Loss is 7; expected 0 to 1":         func() { New(Config{Faults: Faults{Loss: 7}}) },
		"Config.Faults.Corrupt is NaN; expected 0 to 1":    func() { New(Config{Faults: Faults{Corrupt: math.NaN()}}) },
		"Config.Faults.Clogs.Every is -1ns; expected 0 or": func() { New(Config{Faults: Faults{Clogs: Episodes{Every: -1}}}) },
		"process a/0 on host 9; expected 0 to 1":           func() { New(Config{}).Process(9, "a/0", nil) },
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.HasPrefix(said, "sim: "+want) {
					t.Errorf("it panics with %q; expected %q", said, want)
				}
			}()
			make()
		}()
	}
}
