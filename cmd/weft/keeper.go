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

// newKeeperCommand returns the command of the process that starts, feeds and ends the ranks of
// one job on one host. A daemon starts it as the job's user.
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

// attaching is a keeper that attaches to its daemon.
type attaching struct {
	done chan struct{}
	p    *fabric.Process
	err  error
}

// runKeeper checks what the daemon has reserved, reports to the daemon, and keeps the ranks.
func runKeeper(ctx context.Context) error {
	collectLater()
	link, err := ctl.OpenKeeperLink()
	if err != nil {
		return err
	}
	defer link.Close()
	begin, attached, err := awaitReserve(ctx, link)
	if err != nil {
		return fmt.Errorf("the daemon has ended before it said what to keep: %w", err)
	}
	starter := &rankStarter{begin: begin}
	refusals := starter.check()
	<-attached.done
	p, err := attached.p, attached.err
	if errors.Is(err, fabric.ErrNoDaemon) || errors.Is(err, fabric.ErrNICGone) {
		starter.clean()
	}
	if err != nil {
		return err
	}
	defer p.Close()
	if len(refusals) > 0 {
		return refuseReserve(link, refusals)
	}
	if err := link.Answer(&ctl.FromKeeper{Ready: true}); err != nil {
		starter.clean()
		return err
	}
	life := &keeperLifeline{KeeperLink: link}
	o := launch.KeepOptions{Start: starter.start, Stage: starter.stage, Notices: dialNotices(begin.Launcher)}
	err = errors.Join(launch.Keep(ctx, p, begin.Reserve, o, life), starter.close())
	if life.gone.Load() {
		starter.clean()
	}
	return err
}

// awaitReserve waits for the reservation, and starts to attach. A keeper that was started early
// attaches before the reservation comes. If no reservation comes, it removes what its daemon
// would remove.
func awaitReserve(ctx context.Context, link *ctl.KeeperLink) (*ctl.KeeperBegin, *attaching, error) {
	first, err := link.Told()
	if err != nil {
		return nil, nil, err
	}
	attach := func(socket, name string) *attaching {
		a := &attaching{done: make(chan struct{})}
		go func() {
			defer close(a.done)
			var n fabric.Name
			if n, a.err = fabric.ParseName(name); a.err == nil {
				a.p, a.err = fabric.Attach(ctx, fabric.AttachConfig{Socket: socket, Name: n})
			}
		}()
		return a
	}
	w := first.Await
	if w == nil {
		return first.Begin, attach(first.Begin.Socket, launch.KeeperName(first.Begin.Reserve).String()), nil
	}
	a := attach(w.Socket, w.Name)
	if first, err = link.Told(); err != nil {
		unkept := &rankStarter{begin: &ctl.KeeperBegin{Socket: w.Socket}}
		unkept.group, _ = openGroup(w.Cgroup, "", 0)
		unkept.clean()
		return nil, nil, err
	}
	if b := first.Begin; launch.KeeperName(b.Reserve).String() != w.Name || b.Socket != w.Socket {
		return nil, nil, fmt.Errorf("a reservation for %v; expected that of %s", launch.KeeperName(b.Reserve), w.Name)
	}
	return first.Begin, a, nil
}

// clean removes what the daemon would remove if it had not ended: the job's control group, and
// the files of a NIC inside weft run.
func (k *rankStarter) clean() {
	if dir := filepath.Dir(k.begin.Socket); strings.HasPrefix(filepath.Base(dir), ownNICDirectory) {
		_ = os.RemoveAll(dir)
	}
	if k.group != nil && k.group.Leave() == nil {
		_, _ = k.group.Remove(limits.KeeperExtra) // without the rights, the next daemon does it
	}
}

// refuseReserve sends the refusals, and waits until the daemon has read them and ends this
// process.
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

// fitting shortens refusals to the length that a daemon accepts: a path in one has up to
// limits.PathBytes.
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
