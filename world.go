package weft

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weftnet/weft/internal/environ"
	"github.com/weftnet/weft/internal/vni"
)

// ErrNoLauncher comes from Attach and Open without a name, and from Process.World: no launcher
// started this program, or the process got its name from the program.
var ErrNoLauncher = environ.ErrNone

// Place is the place of a process in a parallel job, as the launcher of the job gave it.
type Place struct {
	// Launcher is "weft run", "PMI-1", "Open MPI", "srun", "JobSet", "Indexed Job" or
	// "LeaderWorkerSet".
	Launcher string

	Rank    int    // 0 to Size−1
	Size    int    // number of ranks in the job, 1 to 4096
	Restart int    // how many times the launcher has restarted the job
	Machine string // name of the parallel machine; empty if the launcher names no machine
}

// Place returns the place of the process in its job. If [Attach] or [Open] got a name from the
// program, the process has no place: Place returns the zero Place, whose Size is 0.
func (p *Process) Place() Place { return p.place }

// World joins the group of all ranks of the job, and waits until every rank has joined. The name of
// the group is the application of the process's name. The rank in the group is the rank that the
// launcher gave.
//
// If the process is in the group already, World returns the same group, or the group that
// [Group.Shrink] made of it. After [Group.Close], World joins again. If two goroutines call World
// concurrently, one of them may fail with [ErrGroupJoined].
//
// If ctx is done already, World returns its error, also if the process is in the group. World fails
// with [ErrNoLauncher] if [Attach] or [Open] got a name from the program, and with the errors of
// [Process.Join]. If the launcher restarts a job, the application of the new processes has
// another name. So the processes of an earlier run never join the group.
//
// A launcher may also start one rank anew while the earlier process of the rank still lives, as
// Kubernetes does. If the variable WEFT_JOB_KEY holds the same secret of at least 16 characters
// at all ranks, the newer process takes over the name. All later operations of the earlier
// process fail with [ErrNameLost], and its [Watcher] reports [EventNameLost]. The two processes
// are never both in a group. The newer process is the process that started later by its host's
// clock. If the variable WEFT_INCARNATION is set at both processes, the process with the higher
// number is the newer one. Without WEFT_JOB_KEY, the newer process fails with [ErrNameTaken]
// while the earlier one lives.
func (p *Process) World(ctx context.Context) (*Group, error) {
	if err := ctx.Err(); err != nil {
		return nil, &GroupError{Op: "join", Group: p.name.App, Err: err}
	}
	if p.p.Closed() {
		return nil, &GroupError{Op: "join", Group: p.name.App, Err: ErrClosed}
	}
	if p.place.Size == 0 {
		err := fmt.Errorf("the program named the process %v: %w", p.name, ErrNoLauncher)
		return nil, &GroupError{Op: "join", Group: p.name.App, Err: err}
	}
	if g := p.world.Load(); g != nil {
		return g, nil
	}
	g, err := p.Join(ctx, p.name.App, p.place.Size)
	if err != nil {
		return nil, err
	}
	p.world.Store(g)
	return g, nil
}

// joinedWorld recognizes the group of all ranks among the groups that a process joined when it
// attached.
func (p *Process) joinedWorld(g *Group) {
	if g.Name() == p.name.App && g.Size() == p.place.Size {
		p.world.Store(g)
	}
}

// began is the incarnation of this program's ranks, unless the environment gives one. A later
// process of a rank has a higher incarnation, if the clocks of the hosts differ by less than a
// restart takes.
var began = uint64(time.Now().UnixNano())

// launched holds the environment's description of a process that the program does not name.
type launched struct {
	name  Name  // without an application if only the PMI server knows the job's name
	place Place // without a size if only the PMI server knows it
	pmi   environ.PMI
	life  vni.Life
}

// fromLauncher reads the environment of this program. field is the configuration field that holds
// no name.
func fromLauncher(field string) (launched, error) {
	e, err := environ.From(os.Getenv)
	switch {
	case errors.Is(err, environ.ErrNone):
		return launched{}, argument(fmt.Errorf("weft: %s is empty, and %w", field, err))
	case err != nil:
		return launched{}, argument(fmt.Errorf("weft: %s is empty, and in the environment %w", field, err))
	}
	l := launched{name: Name{App: e.App, Index: uint32(e.Rank)}, pmi: e.PMI}
	l.life.Incarnation = cmp.Or(e.Incarnation, began)
	if e.JobKey != "" {
		l.life.Key = sha256.Sum256([]byte("weft job key\x00" + e.JobKey))
	}
	l.place = Place{Launcher: e.Launcher, Rank: e.Rank, Size: e.Size, Restart: e.Restart, Machine: e.Machine}
	return l, nil
}
