package launchtest

import (
	"context"
	"io"
	"strings"

	"github.com/weftnet/weft/internal/launch"
)

// Console records the output of a job, and holds its input.
type Console struct {
	Lines []string // input
	Asked int      // calls of Input
	Text  map[int]*strings.Builder
	Notes []launch.Note

	// Slow is called before each Output. It may wait, or fail.
	Slow func() error
}

// NewConsole returns a Console with some input.
func NewConsole(lines ...string) *Console {
	return &Console{Lines: lines, Text: make(map[int]*strings.Builder)}
}

// Output records the output of a rank.
func (c *Console) Output(rank, stream int, lines []byte) error {
	if c.Slow != nil {
		if err := c.Slow(); err != nil {
			return err
		}
	}
	if c.Text[rank] == nil {
		c.Text[rank] = &strings.Builder{}
	}
	c.Text[rank].Write(lines)
	return nil
}

// Of returns the output of a rank.
func (c *Console) Of(rank int) string {
	if c.Text[rank] == nil {
		return ""
	}
	return c.Text[rank].String()
}

// Input returns the next line.
func (c *Console) Input(context.Context) ([]byte, error) {
	c.Asked++
	if len(c.Lines) == 0 {
		return nil, io.EOF
	}
	line := c.Lines[0]
	c.Lines = c.Lines[1:]
	return []byte(line), nil
}

// Note records an event.
func (c *Console) Note(n launch.Note) { c.Notes = append(c.Notes, n) }

// Has reports whether there was a note of a kind.
func (c *Console) Has(k launch.NoteKind) bool {
	for _, n := range c.Notes {
		if n.Kind == k {
			return true
		}
	}
	return false
}

var _ launch.Console = (*Console)(nil)
