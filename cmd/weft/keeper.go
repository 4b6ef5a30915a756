package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/limits"
)

func init() { registerFrequent("keeper", newKeeperCommand) }

// newKeeperCommand is the process that starts, feeds and ends the ranks of one job on one host. A daemon starts it as the
// job's user.
func newKeeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keeper",
		Short:  "Keep the ranks of a job on this host; the NIC daemon starts keepers",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(c *cobra.Command, _ []string) error { return runKeeper(c.Context()) },
	}
}

// keeperLifeline is the keeper's connection to its daemon.
type keeperLifeline struct {
	*ctl.KeeperLink
	gone atomic.Bool // the daemon has ended
}

func (l *keeperLifeline) Told(context.Context) (*ctl.ToKeeper, error) {
	m, err := l.KeeperLink.Told()
	if err != nil {
		l.gone.Store(true)
	}
	return m, err
}

// runKeeper checks what the daemon has reserved, tells the daemon, and keeps the ranks.
func runKeeper(ctx context.Context) error {
	collectLater()
	link, err := ctl.OpenKeeperLink()
	if err != nil {
		return err
	}
	defer link.Close()
	first, err := link.Told()
	if err != nil {
		return fmt.Errorf("the daemon has ended before it said what to keep: %w", err)
	}
	begin := first.Begin
	starter := &rankStarter{begin: begin}
	checked := make(chan []ctl.Refusal, 1)
	go func() { checked <- starter.check() }()
	p, err := fabric.Attach(ctx, fabric.AttachConfig{Socket: begin.Socket, Name: launch.KeeperName(begin.Reserve)})
	if err != nil {
		return err
	}
	defer p.Close()
	if refusals := <-checked; len(refusals) > 0 {
		return refuseReserve(link, refusals)
	}
	if err := link.Answer(&ctl.FromKeeper{Ready: true}); err != nil {
		return err
	}
	life := &keeperLifeline{KeeperLink: link}
	o := launch.KeepOptions{Start: starter.start, Stage: starter.stage}
	err = errors.Join(launch.Keep(ctx, p, begin.Reserve, o, life), starter.close())
	if life.gone.Load() {
		starter.clean()
	}
	return err
}

// clean removes what the daemon would remove if it had not ended: the job's control group, and the files of a NIC that
// was in a weft run.
func (k *rankStarter) clean() {
	if dir := filepath.Dir(k.begin.Socket); strings.HasPrefix(filepath.Base(dir), ownNICDirectory) {
		_ = os.RemoveAll(dir)
	}
	if k.group != nil && k.group.Leave() == nil {
		_, _ = k.group.Remove(limits.KeeperExtra) // without the rights, the next daemon does it
	}
}

// refuseReserve sends the refusals, and waits until the daemon has taken them and ends this process.
func refuseReserve(link *ctl.KeeperLink, refusals []ctl.Refusal) error {
	if err := link.Answer(&ctl.FromKeeper{Refusals: fitting(refusals)}); err != nil {
		return err
	}
	for {
		if _, err := link.Told(); err != nil {
			return nil
		}
	}
}

// fitting shortens refusals to what a daemon takes: a path in one has up to limits.PathBytes.
func fitting(all []ctl.Refusal) []ctl.Refusal {
	all = slices.Clone(all)
	for i := range all {
		r := &all[i]
		r.Text = strings.ToValidUTF8(r.Text, "?") // JSON would lengthen it
		if most := limits.JobRefusalBytes - len(r.What) - len(r.Cure); len(r.Text) > most {
			const cut = " … "
			half := (most - len(cut)) / 2
			r.Text = strings.ToValidUTF8(r.Text[:half], "") + cut + strings.ToValidUTF8(r.Text[len(r.Text)-half:], "")
		}
	}
	return all
}
