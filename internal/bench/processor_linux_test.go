package bench

import (
	"os"
	"testing"
	"time"
)

func TestProcessorTimeIsThatOfTheProgram(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := processorTime(self)
	if err != nil {
		t.Fatal(err)
	}
	// a processor may be taken from us, but not always
	for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
		after, err := processorTime(self)
		if err != nil || after < before {
			t.Fatalf("%v, after %v: %v", after, before, err)
		}
	}
	after, err := processorTime([]int{self[0], self[0]})
	if err != nil || after <= 2*before {
		t.Errorf("%v for two after 20 ms of work, %v for one before: %v", after, before, err)
	}
	if _, err := processorTime([]int{1 << 22}); err == nil {
		t.Error("a program that is not there has a processor time")
	}
}
