package crc

import "testing"

// eachWay runs a test for each way in which this processor can compute a checksum.
func eachWay(t *testing.T, test func(*testing.T)) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			defer w.take()()
			test(t)
		})
	}
}

// A way is one of these ways. take selects it until its result is called.
type way struct {
	name string
	take func() (back func())
}
