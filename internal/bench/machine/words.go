package machine

import (
	"strings"
	"sync"
)

// lastWords keeps the end of a command's output.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

const keptWords = 4 << 10

func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	if n := len(w.text) - keptWords; n > 0 {
		w.text = append(w.text[:0], w.text[n:]...)
	}
	return len(b), nil
}

// line returns the last line.
func (w *lastWords) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.text)), "\n")
	return lines[len(lines)-1]
}

// all returns the kept text.
func (w *lastWords) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.text))
}
