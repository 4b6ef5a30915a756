package daemon

import (
	"log/slog"
	"os"
	"testing"
	"time"
)

// The kernel may close a keeper's link before the daemon has read the keeper's last line.
func TestLastWordsThatComeBehindTheEndAreHeard(t *testing.T) {
	said, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{mute: make(chan struct{})}
	heard := make(chan string)
	go func() { heard <- k.lastWords() }()
	time.Sleep(10 * time.Millisecond) // lastWords waits; if it has not begun, the test shows less
	if _, err := says.WriteString("no memory\n"); err != nil {
		t.Fatal(err)
	}
	if err := says.Close(); err != nil {
		t.Fatal(err)
	}
	go k.logLines(said, slog.New(slog.DiscardHandler))
	if got := <-heard; got != ": no memory" {
		t.Errorf("the last words are %q", got)
	}
}
