package capture

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// Check says what is wrong with the sizes of a configuration.
func (c *Config) Check() error {
	if c.Limit != 0 && c.Limit < limits.LeastCapture {
		return fmt.Errorf("a file of %d bytes; expected 0 or %d and more", c.Limit, limits.LeastCapture)
	}
	if c.Snap < 0 || c.Snap > limits.MaxFrame {
		return fmt.Errorf("%d bytes of each frame; expected 0 to %d", c.Snap, limits.MaxFrame)
	}
	return nil
}

// Open captures what passes d in a new file, in place of one that exists there. The file is for its owner alone, since it holds what messages
// say. now is the engine's clock. On an error d is as it was.
func Open(d link.Driver, path string, now func() clock.Time, cfg Config) (*Driver, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("capture to %s: %w", path, err)
	}
	cfg.Clock, cfg.Base = now, time.Now().Add(-time.Duration(now()))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err) // which names the path
	}
	if say := cfg.Log; say != nil {
		cfg.Log = func(text string) { say(fmt.Sprintf("capture to %s: %s", path, text)) }
	}
	c, err := Wrap(d, f, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture to %s: %w", path, err), f.Close())
	}
	return c, nil
}
