package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// ratesFile holds a result of messages and TCP by the rate of the cable. A test of the documents
// writes its table.
const ratesFile = "rates.json"

// ratesResult holds everything that such a run has found.
type ratesResult struct {
	Machine contest.Machine   `json:"machine"`
	Commit  string            `json:"commit"`
	Date    string            `json:"date"` // of the start, RFC 3339
	Command string            `json:"command"`
	Rows    []json.RawMessage `json:"rows"` // as weft prints them
}

// runRates measures messages and TCP in turns over cables of several rates, instead of the
// contest.
func runRates(ctx context.Context, f *flags, out io.Writer) error {
	dir, err := os.MkdirTemp("", "weft-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	named := f.weft != ""
	if f.weft, err = weftBinary(ctx, f.weft, dir); err != nil {
		return err
	}
	r := &ratesResult{Machine: machine(), Commit: commit(ctx, f.weft, named),
		Date: time.Now().UTC().Format(time.RFC3339)}
	others := othersTook()
	if err := r.run(ctx, f); err != nil {
		return err
	}
	r.Machine.Others = math.Round(100*others()) / 100
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if f.out == "" {
		_, err := out.Write(text)
		return err
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	return writeFiles(f.out, map[string][]byte{ratesFile: text})
}

// run runs weft and keeps its output.
func (r *ratesResult) run(ctx context.Context, f *flags) error {
	args := []string{"bench", "netstar", "--rate", f.rates, "--time", f.head.String(), "--json"}
	r.Command = "weft " + strings.Join(args, " ")
	c := exec.CommandContext(ctx, f.weft, args...)
	var said bytes.Buffer
	c.Stderr = &said
	rows, err := c.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", r.Command, err, said.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(rows)); ; {
		var row json.RawMessage
		switch err := d.Decode(&row); {
		case errors.Is(err, io.EOF) && len(r.Rows) > 0:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", r.Command, err)
		}
		var of struct{ Rate, Size int64 }
		if err := json.Unmarshal(row, &of); err != nil || of.Rate <= 0 || of.Size <= 0 {
			return fmt.Errorf("%s: a row without a rate or a size: %s", r.Command, row)
		}
		r.Rows = append(r.Rows, row)
	}
}
