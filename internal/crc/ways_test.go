package crc

import "testing"

// eachWay runs a test for each way of the processor's to make a checksum.
func eachWay(t *testing.T, test func(*testing.T)) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			defer w.take()()
			test(t)
		})
	}
}

// way is one of them: take has it taken, until what it returns is called.
type way struct {
	name string
	take func() (back func())
}
