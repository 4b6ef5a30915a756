package gossip

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// logWriter passes memberlist's log on. An error of memberlist is only a discarded packet or a
// peer that did not answer, so every line is passed on one level lower. Strangers can cause such
// lines, so their number is limited.
type logWriter struct {
	to       *slog.Logger
	unopened atomic.Uint64 // lines about messages of others that no key opens

	mu      sync.Mutex
	begun   time.Time // begin of the interval that is counted
	lines   int       // passed on in it, above debug
	dropped int
}

const (
	logStretch = 10 * time.Second
	logLines   = 20 // in each interval
)

// Write handles one line: "[WARN] memberlist: text".
func (w *logWriter) Write(line []byte) (int, error) {
	if isUnopened(line) {
		w.unopened.Add(1)
	}
	level := slog.LevelDebug
	text := bytes.TrimSpace(line)
	for prefix, l := range map[string]slog.Level{
		"[ERR] ": slog.LevelWarn, "[WARN] ": slog.LevelInfo, "[INFO] ": slog.LevelDebug, "[DEBUG] ": slog.LevelDebug,
	} {
		if rest, ok := bytes.CutPrefix(text, []byte(prefix)); ok {
			level, text = l, rest
			break
		}
	}
	ok, dropped := w.admit(level)
	if dropped > 0 {
		w.to.Warn("gossip: too much to log", "dropped", dropped)
	}
	if ok {
		w.to.Log(context.Background(), level, "gossip: "+string(text))
	}
	return len(line), nil
}

// admit reports whether a line may pass, and how many lines were dropped in the interval that has
// just ended.
func (w *logWriter) admit(l slog.Level) (ok bool, dropped int) {
	if l < slog.LevelInfo {
		return true, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.begun) > logStretch {
		dropped = w.dropped
		w.begun, w.lines, w.dropped = now, 0, 0
	}
	if w.lines >= logLines {
		w.dropped++
		return false, 0
	}
	w.lines++
	return true, dropped
}
