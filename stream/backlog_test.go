package stream_test

import (
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// Clients that dial at the same time are not refused just because the accepting goroutine has not
// run yet.
func TestManyClientsAtOnceAreNotRefused(t *testing.T) {
	const many = 1000
	a, b := pair(t, weft.Config{})
	l, err := stream.Listen(a, "x")
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if _, err := stream.Dial(t.Context(), b, "a/0:x"); err != nil {
			t.Fatalf("behind %d that wait to be accepted: %v", i, err)
		}
	}
	for range many {
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
}
