package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/gopeer"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/bench/peers/internal/tool"
)

// list holds the contestants that take part, and their sites.
type list struct {
	f    *flags
	self string // this program, for processes of contestants
	dir  string // for files

	here, veth *ground.Site
	lossy      map[float64]*ground.Site
	noHosts    error // why only the site here exists

	contestants []*contest.Contestant
	skipped     []contest.Skipped
	only        *regexp.Regexp
}

// newList makes the sites, and finds out which contestants are available.
func newList(ctx context.Context, f *flags, dir string) (*list, error) {
	only, err := regexp.Compile(f.only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	l := &list{f: f, dir: dir, only: only, here: ground.Here(), lossy: make(map[float64]*ground.Site)}
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if l.noHosts = l.makeHosts(); l.noHosts != nil {
		l.skip("everything between two hosts", l.noHosts)
	}
	l.addWeft()
	l.addDebian(ctx)
	l.addGo()
	l.addPages()
	if len(l.contestants) == 0 {
		return nil, errors.Join(fmt.Errorf("--only %s: no contestant has such a name", f.only), l.why(), l.close())
	}
	return l, nil
}

func (l *list) makeHosts() (err error) {
	if l.veth, err = ground.Between(false, 0); err != nil {
		return err
	}
	for _, loss := range contest.Losses() {
		if l.lossy[loss], err = ground.Between(true, loss); err != nil {
			return err
		}
	}
	return nil
}

func (l *list) close() error {
	var errs []error
	if l.veth != nil {
		errs = append(errs, l.veth.Close())
	}
	for _, s := range l.lossy {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

func (l *list) skip(who string, why error) {
	l.skipped = append(l.skipped, contest.Skipped{Contestant: who, Why: why.Error()})
}

// why returns the skipped contestants as an error.
func (l *list) why() error {
	var errs []error
	for _, s := range l.skipped {
		errs = append(errs, fmt.Errorf("%s is skipped: %s", s.Contestant, s.Why))
	}
	return errors.Join(errs...)
}

// add adds a contestant, if it is asked for and its ground exists.
func (l *list) add(c contest.Contestant) {
	if l.only.MatchString(c.Name) && (c.Ground == contest.Host || l.noHosts == nil) {
		l.contestants = append(l.contestants, &c)
	}
}

// full returns the jobs of a contestant that is on the curves.
func (l *list) full() contest.Jobs { return contest.FullJobs(l.f.head, l.f.point) }

// addWeft adds Weft for each of its links. `weft bench` makes its own hosts, as it does for
// every user. These links are plain.
func (l *list) addWeft() {
	weft := func(args ...string) *tool.Weft { return &tool.Weft{Binary: l.f.weft, Dir: l.dir, Args: args} }
	l.add(contest.Contestant{Name: "Weft, shm", Ground: contest.Host, Jobs: l.full(), Often: true,
		Run: weft("--link", "shm").Run})
	for _, link := range []string{"udp", "xdp"} {
		l.add(contest.Contestant{Name: "Weft, " + link, Ground: contest.Veth, Jobs: l.full(),
			Run: weft("--link", link, "--testbed", "veth").Run})
	}
	l.add(contest.Contestant{Name: "Weft, udp, daemons", Ground: contest.Veth, Jobs: contest.HeadJobs(l.f.head),
		Run: weft("--link", "udp", "--testbed", "veth", "--deployment", "daemon").Run})
	for _, loss := range contest.Losses() {
		for _, link := range []string{"udp", "xdp"} {
			l.add(contest.Contestant{Name: "Weft, " + link, Ground: contest.Loss, Loss: loss,
				Jobs: contest.LossJobs(l.f.head),
				Run:  weft("--link", link, "--testbed", "veth", "--loss", fmt.Sprint(loss)).Run})
		}
	}
	if l.f.sealed {
		l.addSealedWeft()
	}
}

// addSealedWeft adds Weft over sealed links. Shared memory is not among them, since it carries
// payloads in clear.
func (l *list) addSealedWeft() {
	for _, c := range []struct {
		plain string // the contestant that does the same over plain links
		jobs  contest.Jobs
		args  []string
	}{
		{"Weft, udp", l.full(), []string{"--link", "udp"}},
		{"Weft, xdp", l.full(), []string{"--link", "xdp"}},
		{"Weft, udp, daemons", contest.HeadJobs(l.f.head), []string{"--link", "udp", "--deployment", "daemon"}},
	} {
		w := &tool.Weft{Binary: l.f.weft, Dir: l.dir, Args: append(c.args, "--testbed", "veth"), Sealed: true}
		l.add(contest.Contestant{Name: contest.SealedName(c.plain), Ground: contest.Veth, Sealed: true, Jobs: c.jobs,
			Run: w.Run})
	}
}

// addGo adds the libraries for Go.
func (l *list) addGo() {
	for _, p := range gopeer.All() {
		if !l.there(p.Name, p.Available()) {
			continue
		}
		at := func(s *ground.Site) func(context.Context, contest.Jobs) ([]contest.Sample, error) {
			return (&tool.Pair{Self: l.self, Site: s, Kind: p.Kind}).Run
		}
		if p.Clean {
			jobs := l.full().Upto(p.Most, p.Measures...)
			if !p.Tunnel {
				l.add(contest.Contestant{Name: p.Name, Ground: contest.Host, Sealed: p.Sealed, Jobs: jobs,
					Notes: p.Notes, Run: at(l.here)})
			}
			l.add(contest.Contestant{Name: p.Name, Ground: contest.Veth, Sealed: p.Sealed, Jobs: jobs, Notes: p.Notes,
				Run: at(l.veth)})
		}
		if p.Hosts {
			l.add(contest.Contestant{Name: p.Name, Ground: contest.Veth, Sealed: p.Sealed,
				Jobs: contest.HeadJobs(l.f.head).Upto(p.Most, p.Measures...), Notes: p.Notes, Run: at(l.veth)})
		}
		for _, loss := range contest.Losses() {
			if p.Lossy {
				l.add(contest.Contestant{Name: p.Name, Ground: contest.Loss, Loss: loss, Sealed: p.Sealed,
					Jobs: contest.LossJobs(l.f.head), Notes: p.Notes, Run: at(l.lossy[loss])})
			}
		}
	}
}

// addDebian adds the contestants that Debian has: programs, and libraries with our own programs.
func (l *list) addDebian(ctx context.Context) {
	all := []string{contest.Latency, contest.Rate, contest.Bandwidth}
	const most = 4 << 20
	if t, err := tool.NewUCX(l.dir); l.there("UCX", err) {
		l.addBoth("UCX", l.full().Upto(most, all...), true, nil, t.Run)
	}
	if t, err := tool.NewOpenMPI(ctx, l.dir); l.there("Open MPI", err) {
		l.addBoth("Open MPI", l.full().Upto(most, all...), true, nil, t.Run)
	}
	if t, err := tool.NewLibfabric(); l.there("libfabric", err) {
		l.addBoth("libfabric", l.full().Upto(most, tool.LibfabricMeasures()...), true, tool.LibfabricNotes(), t.Run)
	}
	if t, err := tool.NewZeroMQ(ctx, l.dir); l.there("ZeroMQ", err) {
		l.addBoth("ZeroMQ", l.full().Upto(most, all...), false, nil, t.Run)
	}
	if t, err := tool.NewSockperf(); l.there("sockperf", err) {
		l.addBoth("sockperf", contest.HeadJobs(l.f.head).Upto(contest.SmallSize, contest.Latency), false, nil, t.Run)
	}
}

// there reports whether a contestant is available, and records why not.
func (l *list) there(who string, err error) bool {
	if err != nil && l.only.MatchString(who) {
		l.skip(who, err)
	}
	return err == nil
}

// addBoth adds a contestant on one host and between two. One that uses shared memory on one host
// takes its turn often: its figures depend mostly on the distance of the two processors, and on
// a virtual machine that changes within a second.
func (l *list) addBoth(name string, jobs contest.Jobs, memory bool, notes map[string]string,
	run func(context.Context, *ground.Site, contest.Jobs) ([]contest.Sample, error)) {
	for _, at := range []struct {
		ground string
		site   *ground.Site
	}{{contest.Host, l.here}, {contest.Veth, l.veth}} {
		l.add(contest.Contestant{Name: name, Ground: at.ground, Jobs: jobs, Often: memory && at.ground == contest.Host,
			Notes: notes, Run: func(ctx context.Context, jobs contest.Jobs) ([]contest.Sample, error) {
				return run(ctx, at.site, jobs)
			}})
	}
}
