package doctor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The numbers of capabilities in <linux/capability.h>.
const (
	capNetAdmin = 12
	capIPCLock  = 14
)

// capable reports whether the daemon has a capability or, if none runs, whether this process has
// it.
func (p *Patient) capable(capability uint) (bool, error) {
	file := "/proc/" + p.pid() + "/status"
	text, err := p.Host.Read(file)
	if err != nil {
		return false, err
	}
	word, err := field(text, "CapEff:")
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	set, err := strconv.ParseUint(word, 16, 64)
	if err != nil {
		return false, fmt.Errorf("%s: CapEff: %w", file, err)
	}
	return set>>capability&1 != 0, nil
}

// field returns the first word after a key at the start of a line.
func field(text []byte, key string) (string, error) {
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), key); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				return words[0], nil
			}
		}
	}
	return "", errors.New("no line " + strconv.Quote(key))
}
