package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/fabric"
)

// Sealing says whether the links between the NICs of a measurement are sealed. All programs of a
// measurement have the same Sealing.
type Sealing struct {
	Sealed bool // otherwise the links are plain
	// the file with the fabric key of sealed links; empty: the user's own key
	Fabric string
}

// over returns cfg with sealed or plain links.
func (s Sealing) over(cfg weft.Config) weft.Config {
	if cfg.Plain = !s.Sealed; s.Sealed {
		cfg.Fabric = s.Fabric
	}
	return cfg
}

// daemon returns the lines of a daemon's configuration. The daemon has the key of the other
// programs, even if another user runs it.
func (s Sealing) daemon() (lines string, err error) {
	if !s.Sealed {
		return "plain = true\n", nil
	}
	_, source, note, err := fabric.Load(s.Fabric)
	switch {
	case err != nil:
		return "", err
	case source == fabric.ThisProcess:
		return "", fmt.Errorf("a daemon has no way to the key of this process: %s", note)
	}
	return fmt.Sprintf("key_files = [%q]\n", source), nil
}

// arguments returns the flags for another program of the measurement.
func (s Sealing) arguments() []string {
	if !s.Sealed {
		return []string{"--sealed", "off"}
	}
	if s.Fabric == "" {
		return []string{"--sealed", "on"}
	}
	return []string{"--sealed", "on", "--fabric", s.Fabric}
}

// words returns "sealed" or "plain".
func (s Sealing) words() string {
	if s.Sealed {
		return "sealed"
	}
	return "plain"
}

// NewFabric makes a fabric key for one measurement, in its own directory. remove removes the
// directory.
func NewFabric() (file string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(dir, fabric.FileName)
	if _, err := fabric.Init(file); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("bench: a fabric key for the measurement: %w", err)
	}
	return file, func() error { return os.RemoveAll(dir) }, nil
}
