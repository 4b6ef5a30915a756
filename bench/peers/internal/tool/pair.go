package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
)

// Pair is a library for Go, as two processes of this program: a server and a client.
type Pair struct {
	Self string // this program
	Site *ground.Site
	Kind string // of package gopeer
}

// Run does the jobs.
func (p *Pair) Run(ctx context.Context, jobs contest.Jobs) ([]contest.Sample, error) {
	server := p.Site.Program(ctx, 1, p.Self, "child", "server", p.Kind, p.Site.Addr(1))
	addr, err := server.StartServer()
	if err != nil {
		return nil, err
	}
	defer server.End()
	out, err := p.Site.Program(ctx, 0, p.Self, "child", "client", p.Kind, addr, jobs.String()).Output()
	samples, bad := parseSamples(out)
	return samples, errors.Join(err, bad)
}

// parseSamples parses the samples that one of our processes has printed, one per line. It leaves
// out an incomplete last line; the process's status tells how it ended.
func parseSamples(out string) (samples []contest.Sample, err error) {
	whole := out[:strings.LastIndexByte(out, '\n')+1]
	for d := json.NewDecoder(strings.NewReader(whole)); ; {
		var s contest.Sample
		switch err := d.Decode(&s); {
		case errors.Is(err, io.EOF):
			return samples, nil
		case err != nil:
			return samples, fmt.Errorf("samples: %w", err)
		case s.Measure == "" || s.Size < 1 || s.Value <= 0:
			return samples, fmt.Errorf("samples: %+v has no measure, size or value", s)
		}
		samples = append(samples, s)
	}
}
