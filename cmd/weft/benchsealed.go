package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// Values of --sealed.
const (
	sealedOn   = "on"
	sealedOff  = "off"
	sealedBoth = "on,off"
)

// sealedFlags say whether the links between the NICs of a measurement are sealed.
type sealedFlags struct {
	links  string
	fabric string // key file, in a process that another weft has started
}

func (f *sealedFlags) define(fs *pflag.FlagSet, both string) {
	choiceFlag(fs, &f.links, "sealed", sealedOff, []string{sealedOn, sealedOff, sealedBoth},
		"encrypt and authenticate frames; "+both)
	fs.StringVar(&f.fabric, "fabric", "", "`FILE` with the fabric key")
	_ = fs.MarkHidden("fabric") // it is defined
}

// sealing returns the setting for links.
func (f *sealedFlags) sealing(links string) bench.Sealing {
	return bench.Sealing{Sealed: links != sealedOff, Fabric: f.fabric}
}

// withKey calls run. If sealed links need a fabric key, it makes one for that time.
func (f *sealedFlags) withKey(run func() error) (err error) {
	if f.links == sealedOff || f.fabric != "" {
		return run()
	}
	file, remove, err := bench.NewFabric()
	if err != nil {
		return err
	}
	f.fabric = file
	defer func() { f.fabric = ""; err = errors.Join(err, remove()) }()
	return run()
}

// oneByOne measures plain links, sealed links, or both in turn.
func oneByOne[O, R any](
	f *sealedFlags, o *O, into *bench.Sealing, run func(context.Context, O, func(R) error) error,
) func(context.Context, func(R) error) error {
	return func(ctx context.Context, row func(R) error) error {
		return f.withKey(func() error {
			all := []string{f.links}
			if f.links == sealedBoth {
				all = []string{sealedOff, sealedOn}
			}
			for _, links := range all {
				*into = f.sealing(links)
				if err := run(ctx, *o, row); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
