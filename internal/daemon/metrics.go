package daemon

import (
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/metrics"
)

// metrics returns the address and the token of the metrics. It reads the file with the token.
func (c Config) metrics(stateDir string, wrong func(key, format string, args ...any)) (m metrics.Config) {
	var err error
	if m.Address, err = metrics.ParseAddress(c.Metrics, stateDir); err != nil {
		wrong("metrics", "%w", err)
		return metrics.Config{}
	}
	if c.MetricsTokenFile != "" {
		text, err := fabric.ReadSecret(c.MetricsTokenFile, "token")
		if err == nil {
			m.Token, err = metrics.ParseToken(text)
		}
		if err != nil {
			wrong("metrics_token_file", "%w", err)
			return metrics.Config{}
		}
	}
	if err := m.Check(); err != nil {
		wrong("metrics", "%w", err)
	}
	return m
}
