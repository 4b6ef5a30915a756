package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weftnet/weft/internal/launch"
)

// fileSink writes each stream of each rank to its own file.
type fileSink struct{ out, err []*os.File }

// newFileSink makes DIR/RANK.out and DIR/RANK.err for each rank. Files that exist become empty.
func newFileSink(dir string, ranks int) (*fileSink, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	s := &fileSink{}
	for rank := range ranks {
		for _, f := range []struct {
			to   *[]*os.File
			kind string
		}{{&s.out, "out"}, {&s.err, "err"}} {
			file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.%s", rank, f.kind)))
			if err != nil {
				return nil, errors.Join(fmt.Errorf("--output: %w", err), s.close())
			}
			*f.to = append(*f.to, file)
		}
	}
	return s, nil
}

func (s *fileSink) output(rank, stream int, b []byte) error {
	f := s.out
	if stream == launch.Stderr {
		f = s.err
	}
	_, err := f[rank].Write(b)
	return err
}

func (s *fileSink) ended(int) error { return nil }

func (s *fileSink) close() (err error) {
	for _, f := range append(s.out, s.err...) {
		err = joinErrors(err, f.Close())
	}
	return err
}
