package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// warn prints the conditions of this machine that spoil a measurement.
func warn(c *cobra.Command) {
	for _, why := range bench.Spoils() {
		fmt.Fprintf(c.ErrOrStderr(), "weft: warning: %s\n", why)
	}
}

func hdrFlag(fs *pflag.FlagSet, file *string) {
	fs.Var(&checkedFlag{
		kind: "FILE",
		want: "the name of a file",
		set: func(s string) bool {
			*file = s
			return s != ""
		},
	}, "hdr", "write the distribution of the round trips, in µs, to FILE, in the format of HdrHistogram's plotters")
}

// writeHDR returns a function that writes a distribution to a file; nil if name is empty. It
// checks that the file can be written before anything is measured.
func writeHDR(name string) (write func(int, *hdrhistogram.Histogram) error, err error) {
	if name == "" {
		return nil, nil
	}
	if err := tryWriting(name); err != nil {
		return nil, usagef("--hdr: %v", err)
	}
	return func(_ int, h *hdrhistogram.Histogram) error {
		var text bytes.Buffer
		if _, err := h.PercentilesPrint(&text, 5, 1000); err != nil {
			return err
		}
		return os.WriteFile(name, text.Bytes(), 0o666)
	}, nil
}

// tryWriting returns an error if a file cannot be written. It leaves the file as it was, or
// absent: the measurement that follows may fail.
func tryWriting(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		return errors.Join(f.Close(), os.Remove(name))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if f, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
		return err
	}
	return f.Close()
}
