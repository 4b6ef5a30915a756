package main

import (
	"context"
	"io"
	"math"
	"os"

	"github.com/weftnet/weft/bench/peers/internal/page"
	"github.com/weftnet/weft/bench/peers/internal/programs"
)

// programsFile holds a result of programs in the NIC.
const programsFile = "programs.json"

// runPrograms measures programs in the NIC, instead of the contest, and draws the charts.
func runPrograms(ctx context.Context, f *flags, out io.Writer) error {
	dir, err := os.MkdirTemp("", "weft-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	named := f.weft != ""
	if f.weft, err = weftBinary(ctx, f.weft, dir); err != nil {
		return err
	}
	r := &programs.Result{Machine: machine(), Commit: commit(ctx, f.weft, named), Rounds: f.rounds}
	others := othersTook()
	if err := r.Run(ctx, f.weft, f.head); err != nil {
		return err
	}
	r.Machine.Others = math.Round(100*others()) / 100
	return reportPrograms(r, f, out)
}

// reportPrograms writes the result and its charts to a directory, if the flags name one.
// Otherwise it prints the result.
func reportPrograms(r *programs.Result, f *flags, out io.Writer) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	if f.out == "" {
		_, err := out.Write(text)
		return err
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{programsFile: text}
	for _, p := range page.Programs(r) {
		files[p.File] = p.SVG
	}
	return writeFiles(f.out, files)
}

// programsAgain reports an earlier run.
func programsAgain(f *flags, out io.Writer) error {
	var r programs.Result
	if err := readJSON(f.from, &r); err != nil {
		return err
	}
	return reportPrograms(&r, f, out)
}
