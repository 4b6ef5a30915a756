package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry/gossip"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
)

// A reload reads the configuration again and applies the changes that need no restart:
//
//	SIGHUP, weft nic reload ──► Config.Reread ──► check all ──► compare ──► apply, link by link
//	                                 │                │
//	                                 └── mistakes ────┴──► nothing changes
//
// It checks everything before it applies the first change.

// Reload asks the daemon to reload its configuration, and does not wait. The log has the result. A
// reload before Run waits for Run.
func (d *Daemon) Reload() {
	select {
	case d.door.hangUps <- struct{}{}:
	default: // one is due already
	}
}

// heedHangUps reloads after each call of Reload until ctx is done.
func (h *door) heedHangUps(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.hangUps:
			_, _ = h.reload(false) // the log has the result
		}
	}
}

// answerReload serves a tool that asks for a reload.
func (d *Daemon) answerReload(c *ctl.Client, r *ctl.Reload) error {
	if !d.owner(c) {
		return fmt.Errorf("%w: user %d may not reload this daemon; expected the daemon's user or root", ctl.ErrRefused,
			c.Peer.UID)
	}
	changes, err := d.door.reload(r.Check)
	if err != nil {
		return err
	}
	return c.Reply(&ctl.Reply{Reloaded: changes})
}

// reload reads the configuration and applies it. With check it only returns what would change.
func (h *door) reload(check bool) (r *ctl.Reloaded, err error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	log := h.links[0].log
	if h.ctx.Err() != nil {
		return nil, ctl.ErrNICGone
	}
	if !check {
		h.tellUnlessEnding(h.supervisor.Reloading)
		defer h.tellUnlessEnding(h.supervisor.Ready)
		defer func() { tellReload(log, r, err) }()
	}
	steps, applied, restart, err := h.plan()
	switch {
	case h.ctx.Err() != nil:
		return nil, ctl.ErrNICGone
	case err != nil:
		return nil, fmt.Errorf("%w; the NIC goes on with its configuration", err)
	}
	if !check {
		for _, s := range steps {
			err = errors.Join(err, h.of(s.d, s.apply()))
		}
		if err = errors.Join(err, h.letIn()); err != nil {
			err = fmt.Errorf("%w; the other changes have been applied", err)
		}
	}
	return report(applied, restart), err
}

// unlessEnding returns the result of f, which may look up the names of hosts. If ctx ends before,
// it returns ErrNICGone, and no caller gets the result of f.
func unlessEnding[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, ctl.ErrNICGone
	}
}

// plan reads and checks the configuration, and returns the steps that apply it.
func (h *door) plan() (steps []*step, applied, restart []ctl.Change, err error) {
	read := h.links[0].settings.config.Reread
	if read == nil {
		return nil, nil, nil, errors.New("this daemon was started without a configuration that it could read again")
	}
	all, err := unlessEnding(h.ctx, func() ([]settings, error) {
		c, err := read()
		if err != nil {
			return nil, err
		}
		return c.started()
	})
	if err != nil {
		return nil, nil, nil, err
	}
	// A further link has its state in another directory, and the keys of the first one apply to it.
	// So no part of a configuration with other links can be applied.
	sameName := func(d *Daemon, s settings) bool { return d.settings.config.called == s.config.called }
	if !slices.EqualFunc(h.links, all, sameName) {
		return nil, nil, nil, fmt.Errorf("link: the links would be %s, and the daemon runs %s; restart it, "+
			"or put link back", namesOf(all), h.linkNames())
	}
	for i, d := range h.links {
		s := &step{d: d, now: &d.current, next: &all[i]}
		if err := h.of(d, s.compare()); err != nil {
			return nil, nil, nil, err
		}
		link := ""
		if len(h.links) > 1 {
			link = d.settings.linkName()
		}
		steps = append(steps, s)
		applied, restart = append(applied, onLink(s.applied, link)...), append(restart, onLink(s.restart, link)...)
	}
	return steps, applied, restart, nil
}

// namesOf lists the names of links.
func namesOf(all []settings) string {
	var names []string
	for i := range all {
		names = append(names, all[i].linkName())
	}
	return strings.Join(names, ", ")
}

// step is the reload of one link.
type step struct {
	d         *Daemon
	now, next *settings
	keys      fabricKeys
	lists     [][]byte // revocation lists that are newer

	applied, restart []ctl.Change
}

// compare finds the changes and applies none. It returns an error if a change would fail.
func (s *step) compare() error {
	applied, restart := different(s.now, s.next)
	for _, c := range applied {
		if s.applies(c.Key) {
			s.applied = append(s.applied, c)
		} else {
			restart = append(restart, c)
		}
	}
	slices.SortFunc(restart, func(a, b ctl.Change) int { return strings.Compare(a.Key, b.Key) })
	s.restart = restart
	s.compareContents()
	s.applied = append(s.applied, changedNodes(s.d.listed.Nodes(), s.next.nodes.Nodes())...)
	if was, is := s.d.positionIn(s.now), s.d.positionIn(s.next); was != is {
		s.restart = append(s.restart, ctl.Change{Key: changedPosition, Was: positionText(was), Is: positionText(is)})
	}
	if err := s.compareKeys(); err != nil {
		return err
	}
	if err := s.compareCertificate(); err != nil {
		return err
	}
	return s.compareLists()
}

// applies reports whether this reload applies a reloadable key. Some of them depend on keys that
// need a restart.
func (s *step) applies(key string) bool {
	switch key {
	case "key_files":
		return !s.now.config.Plain && !s.next.config.Plain
	case "certificate":
		return s.sameAuthorities() && s.now.id == s.next.id && s.ownCertificate()
	case "revocations":
		return s.sameAuthorities() && s.now.stateDir == s.next.stateDir
	}
	return true
}

// ownCertificate reports whether the next certificate, if any, is for the static key of the running
// NIC. The files may hold another key, which the NIC would have after a restart.
func (s *step) ownCertificate() bool {
	if len(s.next.trusted.certificate) == 0 {
		return true
	}
	c, err := trust.ParseCertificate(s.next.trusted.certificate)
	return err == nil && c.Key == s.d.key.Public()
}

// compareContents finds changes in files whose names stay and that the daemon uses only at its
// start.
func (s *step) compareContents() {
	if s.now.config.besides { // all links have the same
		return
	}
	if !s.sameAuthorities() && slices.Equal(s.now.config.Authorities, s.next.config.Authorities) {
		s.restart = append(s.restart, ctl.Change{Key: changedAuthorities,
			Was: authoritiesText(s.now.trusted.authorities), Is: authoritiesText(s.next.trusted.authorities)})
	}
	if s.now.metrics.Token != s.next.metrics.Token &&
		s.now.config.MetricsTokenFile == s.next.config.MetricsTokenFile {
		s.restart = append(s.restart, ctl.Change{Key: changedToken, Was: "the present one", Is: "another one"})
	}
}

// authoritiesText returns the ids of authorities.
func authoritiesText(all []trust.CAPublic) string {
	var l []string
	for _, a := range all {
		l = append(l, a.ID().String())
	}
	return shortened(strings.Join(l, ", "))
}

// positionText returns a position on its torus.
func positionText(p nic.Position) string {
	if p.Width == 0 {
		return ""
	}
	return fmt.Sprintf("%d,%d of %d by %d", p.X, p.Y, p.Width, p.Height)
}

// compareKeys reads the fabric keys. It looks for them where the running NIC has its state.
func (s *step) compareKeys() (err error) {
	s.keys = s.d.live.Load().keys
	if s.now.config.Plain || s.next.config.Plain {
		return nil
	}
	next := *s.next
	next.stateDir, next.config.fabricDir = s.now.stateDir, s.now.config.fabricDir
	var k fabricKeys
	k.keys, k.from, k.note, err = next.fabricKeys(false)
	switch {
	case err != nil:
		return err
	case k.keys == nil && s.keys.from == fabric.ThisProcess:
		return nil
	case k.keys == nil:
		return fmt.Errorf("fabric key: %s; put the file back, or name others in key_files", k.note)
	}
	if !slices.Equal(k.keys, s.keys.keys) && !s.now.config.besides { // all links have the same
		s.applied = append(s.applied, ctl.Change{Key: "fabric keys", Was: fingerprints(s.keys.keys),
			Is: fingerprints(k.keys)})
	}
	s.keys = k
	return nil
}

// fingerprints returns the fingerprints of keys, which reveal nothing of the keys.
func fingerprints(keys []trust.FabricKey) string {
	var l []string
	for _, k := range keys {
		l = append(l, k.Fingerprint())
	}
	return strings.Join(l, ", ")
}

// compareCertificate looks whether this NIC has another certificate. With another id, other
// authorities or another static key it takes effect only after a restart.
func (s *step) compareCertificate() error {
	if slices.Equal(s.now.trusted.certificate, s.next.trusted.certificate) {
		return nil
	}
	c := ctl.Change{Key: changedCertificate, Was: certificateText(s.now.trusted.certificate),
		Is: certificateText(s.next.trusted.certificate)}
	if !s.applies("certificate") {
		s.restart = append(s.restart, c)
		return nil
	}
	s.applied = append(s.applied, c)
	need := (&rel.Security{Certificate: s.next.trusted.certificate}).LeastMTU()
	if mtu := s.d.link.MTU(); !s.now.config.Plain && mtu < need {
		return fmt.Errorf("certificate: it needs frames of %d bytes, and the link carries %d; sign a shorter one",
			need, mtu)
	}
	return nil
}

func certificateText(encoded []byte) string {
	c, err := trust.ParseCertificate(encoded)
	if err != nil {
		return ""
	}
	return "serial " + trust.SerialText(c.Serial)
}

func (s *step) sameAuthorities() bool {
	return slices.Equal(s.now.trusted.authorities, s.next.trusted.authorities)
}

// compareLists finds the revocation lists that are newer than those of the NIC.
func (s *step) compareLists() error {
	if !s.sameAuthorities() || s.now.config.Plain {
		return nil
	}
	have := make(map[trust.CAID]uint64)
	s.d.loop.Do(func(clock.Time) {
		all, _ := s.d.engine.Revocations()
		for _, l := range all {
			have[l.CA] = l.Number
		}
	})
	for _, b := range s.next.trusted.lists {
		l, err := trust.ParseRevocationList(b)
		if err != nil {
			return fmt.Errorf("revocations: %w", err)
		}
		if was, known := have[l.CA]; !known || was < l.Number {
			c := ctl.Change{Key: fmt.Sprintf("revocation list of authority %v", l.CA),
				Is: fmt.Sprint("number ", l.Number)}
			if known {
				c.Was = fmt.Sprint("number ", was)
			}
			if s.lists = append(s.lists, b); !s.now.config.besides { // all links have the same
				s.applied = append(s.applied, c)
			}
		}
	}
	return nil
}

// apply makes the changes of a link. compare has checked them, so an error is unexpected. After an
// error, apply still makes the remaining changes.
func (s *step) apply() error {
	d, certificate := s.d, s.now.trusted.certificate
	if s.applies("certificate") {
		certificate = s.next.trusted.certificate
	}
	var errs []error
	d.loop.Do(func(now clock.Time) {
		errs = append(errs, d.engine.Retrust(bound(s.next.nodes.Nodes()), s.next.trusted.grants),
			d.engine.UseKeys(now, s.keys.keys, certificate))
		for _, l := range s.lists {
			_, err := d.engine.Revoke(l)
			errs = append(errs, err)
		}
	})
	if d.gossip != nil {
		errs = append(errs, d.gossip.UseKeys(gossip.Keys(s.keys.keys)))
	}
	errs = append(errs, d.listed.Set(s.next.nodes.Nodes()))
	d.live.Store(s.merge().live(s.keys))
	d.level.Set(levelOf(s.next.config.Log))
	return errors.Join(errs...)
}

// merge makes the applied settings the current ones, and returns these. All others stay as they
// were at the start, so that the next reload reports them again.
func (s *step) merge() *settings {
	to, from := &s.now.config, &s.next.config
	to.Log, to.Slots, to.Grants = from.Log, from.Slots, from.Grants
	to.AllowUIDs, to.AllowGIDs, to.ProgramUIDs = from.AllowUIDs, from.AllowGIDs, from.ProgramUIDs
	to.Registry, s.now.trusted.grants = from.Registry, s.next.trusted.grants
	if s.applies("key_files") {
		to.KeyFiles = from.KeyFiles
	}
	if s.applies("certificate") {
		to.Certificate, s.now.trusted.certificate = from.Certificate, s.next.trusted.certificate
	}
	if s.applies("revocations") {
		to.Revocations, s.now.trusted.revocations = from.Revocations, s.next.trusted.revocations
	}
	return s.now
}

// letIn applies the users of the configuration to the socket and to its connections. Processes that
// have attached stay. After hangUp it does nothing: another daemon may have the socket's path.
func (h *door) letIn() (err error) {
	first := h.links[0]
	h.mu.Lock()
	if h.closing {
		h.mu.Unlock()
		return nil
	}
	if mode := first.live.Load().mode; mode != h.mode { // or the administrator's mode stays
		if err = h.listener.Allow(mode); err == nil {
			h.mode = mode
		}
	}
	var strangers []*ctl.Client
	for c := range h.clients {
		if c.session == nil {
			strangers = append(strangers, c.conn)
		}
	}
	h.mu.Unlock()
	for _, c := range strangers {
		if !first.welcomes(c) {
			_ = c.Close()
		}
	}
	return err
}

// tellReload logs the result of a reload.
func tellReload(log *slog.Logger, r *ctl.Reloaded, err error) {
	switch {
	case r == nil:
		log.Error("configuration not reloaded", "error", err)
		return
	case err != nil:
		log.Error("configuration reloaded in part", "error", err)
	default:
		log.Info("configuration reloaded", "applied", len(r.Applied), "after_a_restart", len(r.Restart),
			"not_listed", r.Left)
	}
	for _, c := range r.Applied {
		log.Info("the configuration has changed", "what", c)
	}
	for _, c := range r.Restart {
		log.Warn("the configuration has changed, and that needs a restart", "what", c)
	}
}
