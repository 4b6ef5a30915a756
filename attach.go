package weft

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/memory/filemem"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// AttachConfig configures [Attach]: the NIC daemon, and the name and groups of the process. If a
// launcher started the program, every field may be zero. Otherwise only Name is required.
type AttachConfig struct {
	// Socket is the path of the daemon's socket. If Socket is empty, Attach uses $WEFT_SOCKET. If
	// that variable is not set, Attach uses the first of these sockets at which a daemon listens:
	//
	//   - weft/nic.sock in $XDG_RUNTIME_DIR, for the user's own daemon
	//   - weft/nic.sock in /run/user/UID
	//   - weft-UID/nic.sock in the directory for temporary files
	//   - /run/weft/nic.sock, for the daemon of the host; if the user is root, Attach tries only
	//     this socket
	//
	// A "#" and the name of a link may follow the path.
	Socket string

	// Link is the name of the daemon's link on which the process communicates. A daemon can have
	// several links, each with its own NIC, and a process of one link reaches only processes of the
	// same network. If Link is empty, Attach uses the link that Socket names. If Socket is empty as
	// well, Attach uses the link that $WEFT_SOCKET or $WEFT_LINK names. If none of these names a
	// link, Attach uses the daemon's first link. "weft nic links" lists the links of a daemon.
	Link string

	// Name is the name of the process. If Name is empty, the launcher's environment gives the name.
	// See [Config].Name.
	Name Name

	// Groups lists the groups that the process joins when it attaches. For example, {Size: 4} is
	// the group of the four processes of the application. Attach waits until each group has all its
	// members. To list the processes of the application without waiting, use [Process.AppGroup].
	Groups []Membership

	// Geometry is the size of the process's virtual network interface. The daemon chooses a value
	// for each field that is zero.
	Geometry Geometry
}

// Geometry is the size of a process's virtual network interface, which is the memory that the
// process shares with its NIC daemon. The documented defaults and bounds are those of a daemon in
// its default configuration. If a field is outside its bounds, [Attach] fails with
// [ErrBadArgument].
type Geometry struct {
	// Commands is the number of entries of the command queue. It is a multiple of 8 from 16 to
	// 4096, and at least twice Contexts. The default is 256, or four times Contexts if that is
	// more.
	Commands int

	// Contexts is the number of sends that may be in flight, and also the number of receives that
	// may be in flight. It is from 1 to 1024. The default is 64.
	Contexts int

	// Descriptors is the number of pieces of memory that one operation may have: 1 to 16. The
	// default is 16.
	Descriptors int

	// PoolPages is the number of pages in the pool, 1 to 16384. A page has 4 KiB. The pool holds
	// copies of messages that do not lie in a region. The default is 256.
	PoolPages int
}

// Attach attaches a process of this program to the host's NIC daemon, `weft nic`. Attach waits
// until the process has joined all groups in cfg.Groups. If the process cannot join one of these
// groups, Attach closes the process and fails with a [GroupError]. If the daemon ends later, every
// operation of the process fails with [ErrNICGone].
//
// If the daemon or the fabric refuses the process, Attach fails with one of these errors:
//
//   - [ErrNoDaemon]: no daemon listens at the socket.
//   - [ErrNotTrusted]: the user who runs the daemon is not trusted.
//   - [ErrNotPermitted]: this user may not attach.
//   - [ErrFull]: the NIC has no room for another process.
//   - [ErrOtherVersion]: the daemon and this program use different releases of Weft.
//   - [ErrNameTaken]: another process of the fabric has the name; see [Open].
//   - [ErrNameLost]: a newer process of this process's rank has the name; see [Process.World].
//   - [ErrUnreachable]: no NIC of the fabric has confirmed the name within 4 s.
//   - [ErrBadArgument]: the name, the Geometry or a variable of the environment is invalid, or the
//     daemon has no link with the name Link.
//   - [ErrNoLauncher]: cfg.Name is empty, and no launcher started the program.
func Attach(ctx context.Context, cfg AttachConfig) (*Process, error) {
	if err := ended(ctx, "attach"); err != nil {
		return nil, err
	}
	var by launched
	learn := func(context.Context) error { return nil }
	if cfg.Name == AnyProcess {
		var err error
		if by, err = fromLauncher("AttachConfig.Name"); err != nil {
			return nil, err
		}
		cfg.Name = by.name // ctl finds the socket and the link of the launcher by itself
		// Only the PMI server may know the name of the job. Its connection serves once, so a
		// program that finds no daemon must be able to call Open with it.
		learn = func(ctx context.Context) error {
			err := by.learnName(ctx)
			cfg.Name = by.name
			return err
		}
	} else if _, err := cfg.Name.vni(); err != nil {
		return nil, argument(fmt.Errorf("weft: AttachConfig.Name: %w", err))
	}
	conn, a, err := ask(ctx, &cfg, &by.life, learn)
	if err != nil {
		return nil, by.explain(cfg.Name, err)
	}
	seg, err := vni.OpenSegment(a.RW, a.RO)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("weft: attach %v: %w", cfg.Name, err), a.Close(), a.Unmap())
	}
	half := seg.Process()
	hooks := ctl.Hooks{Listening: half.Listening, Sleeping: half.SetSleeping, WaitsAt: half.SetWaitsAt}
	w := &attachedWaiter{a.Waiter(hooks)}
	id := half.Identity()
	p := &Process{time: realTime{}, name: cfg.Name, place: by.place, addr: Address{NICID(id.NIC), id.Slot, id.Gen}}
	p.leave, p.calls = a.Close, w.w.SystemCalls
	p.askProgram = func(ctx context.Context, nic nicid.ID, r *ctl.Program) (*ctl.ProgramReply, error) {
		reply, err := conn.NIC(uint64(nic)).Program(ctx, r)
		return reply, severed(err)
	}
	p.share = func(id uint32, size int) ([]byte, func() error, error) {
		ctx, cancel := daemonPatience()
		defer cancel()
		mem, leave, err := a.Share(ctx, id, size)
		return mem, func() error {
			ctx, cancel := daemonPatience()
			defer cancel()
			return severed(leave(ctx))
		}, shareRefusal(err)
	}
	release := func() { p.ended.add(a.Close(), a.Unmap()) }
	options := proc.Options{Released: release, Names: attachedNames(conn), Patience: daemonPatience, GivenUp: a.GiveUp}
	whole, err := proc.New(seg, w, &attachedMemory{a}, options)
	if err != nil {
		return nil, errors.Join(err, a.Close(), a.Unmap())
	}
	p.init(whole)
	return p.joined(ctx, cfg.Groups)
}

// asking limits the number of connections of this program that are not attached yet, because a
// program may attach hundreds of processes concurrently. A daemon accepts at most
// limits.StrangersPerProcess such connections from one program, and the program's tools use some of
// them.
var asking = make(chan struct{}, limits.StrangersPerProcess/2)

// ask waits for its turn, connects to the daemon and attaches. Between connecting and attaching,
// it calls learn, which completes the name.
func ask(
	ctx context.Context, cfg *AttachConfig, life *vni.Life, learn func(context.Context) error,
) (*ctl.Conn, *ctl.Attachment, error) {
	select {
	case asking <- struct{}{}:
		defer func() { <-asking }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	conn, err := ctl.DialLink(ctx, cfg.Socket, cfg.Link)
	if err != nil {
		return nil, nil, err
	}
	if err := learn(ctx); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	as := &ctl.Attach{Name: cfg.Name.String(), Geometry: cfg.Geometry.ctl(), Incarnation: life.Incarnation}
	if life.Proves() {
		as.JobKey = life.Key[:]
	}
	a, err := conn.AttachAs(ctx, as)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, a, nil
}

// refusals maps the errors of a daemon, or of a missing daemon, to the errors of this package.
var refusals = []struct{ of, is error }{
	{ctl.ErrRefused, ErrNotPermitted}, {fs.ErrPermission, ErrNotPermitted},
	{ctl.ErrNoDaemon, ErrNoDaemon}, {ctl.ErrNotTrusted, ErrNotTrusted}, {ctl.ErrVersion, ErrOtherVersion},
	{ctl.ErrNoSlot, ErrFull}, {driver.ErrNoSlot, ErrFull},
	{ctl.ErrNameTaken, ErrNameTaken}, {nic.ErrNameTaken, ErrNameTaken},
	{ctl.ErrSuperseded, ErrNameLost}, {nic.ErrSuperseded, ErrNameLost},
	{ctl.ErrNoAnswer, ErrUnreachable},
	{ctl.ErrBadRequest, ErrBadArgument}, {ctl.ErrNoLink, ErrBadArgument},
	{ctl.ErrNoMemory, ErrNoMemory}, {nic.ErrRegions, ErrNoMemory},
	{ctl.ErrRegionBusy, ErrRegionInUse}, {nic.ErrRegionBusy, ErrRegionInUse},
}

// severed maps the errors of a lost connection to the errors of this package. Any request may find
// that the connection is lost, so every request passes its error through severed.
func severed(err error) error {
	switch {
	case errors.Is(err, ctl.ErrClosed):
		return ErrClosed
	// no answer in time
	case errors.Is(err, ctl.ErrNICGone) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrNICGone, err)
	case errors.Is(err, ctl.ErrNICGone):
		return ErrNICGone
	}
	return err
}

// refusal returns the error of an Attach that failed.
func refusal(who string, err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.of) {
			return &refused{who, r.is, err}
		}
	}
	return fmt.Errorf("weft: attach %s: %w", who, severed(err))
}

// explain returns the error of an Attach of a process with this name. If only the PMI server
// knows the name of the job, the name has no application. In that case the error gives the rank
// and the launcher, and says what needs no daemon.
func (l *launched) explain(name Name, err error) error {
	if l.place.Launcher == "" || name.App != "" {
		return refusal(name.String(), err)
	}
	if errors.Is(err, ctl.ErrNoDaemon) {
		err = fmt.Errorf("%w; weft.Open needs none: it opens a NIC inside the program", err)
	}
	return refusal(fmt.Sprintf("rank %d of a job of %s", l.place.Rank, l.place.Launcher), err)
}

// shareRefusal maps the error of a request for a segment or for memory to one of this package.
func shareRefusal(err error) error {
	err = severed(err)
	for _, r := range refusals {
		if err != nil && errors.Is(err, r.of) {
			return fmt.Errorf("%w (%w)", r.is, err)
		}
	}
	return err
}

// refused is the error of an Attach that was refused. Each lower layer has put its own name for
// the reason in front of the text.
type refused struct {
	who string // the process: its name, or its rank
	is  error  // the reason as an error of this package
	by  error  // the error of the layers below
}

// Error returns the text, with the reason only once.
func (r *refused) Error() string {
	why := r.by.Error()
	for cut := true; cut; {
		cut = false
		for _, known := range refusals {
			if rest, found := strings.CutPrefix(why, known.of.Error()+": "); found {
				why, cut = rest, true
			}
		}
	}
	for _, known := range refusals { // "no NIC daemon listens at …"
		if rest, found := strings.CutPrefix(why, known.of.Error()); found && known.is == r.is {
			return fmt.Sprintf("weft: attach %s: %v%s", r.who, r.is, rest)
		}
	}
	return fmt.Sprintf("weft: attach %s: %v: %s", r.who, r.is, why)
}

func (r *refused) Unwrap() []error { return []error{r.is, r.by} }

// attachedNames returns a function that asks the daemon for the live processes of the fabric.
func attachedNames(conn *ctl.Conn) func(context.Context) ([]vni.Name, error) {
	return func(ctx context.Context) ([]vni.Name, error) {
		all, err := conn.Names(ctx)
		if err != nil {
			return nil, severed(err)
		}
		var names []vni.Name
		for i := range all {
			if n, err := vni.ParseName(all[i].Name); err == nil && !all[i].Unreachable {
				names = append(names, n)
			}
		}
		return names, nil
	}
}

func (g Geometry) ctl() *ctl.Geometry {
	if g == (Geometry{}) {
		return nil
	}
	return &ctl.Geometry{Commands: g.Commands, Contexts: g.Contexts, Descriptors: g.Descriptors, PoolPages: g.PoolPages}
}

// daemonPatience returns a context for a request that a daemon answers at once. The context ends
// before the answer only if the daemon is stopped or hangs.
func daemonPatience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limits.DaemonPatience)
}

// attachedWaiter waits for events from a daemon.
type attachedWaiter struct{ w *ctl.Waiter }

func (w *attachedWaiter) Wait(ctx context.Context, ready func() bool) error {
	err := w.w.Wait(ctx, ready)
	if errors.Is(err, ctl.ErrNICGone) || errors.Is(err, ctl.ErrClosed) {
		return proc.ErrNICGone
	}
	return err
}

func (w *attachedWaiter) Kick() { w.w.Kick() }
func (w *attachedWaiter) Wake() { w.w.Wake() }

// attachedMemory makes regions that both the process and the daemon map.
type attachedMemory struct{ a *ctl.Attachment }

func (m *attachedMemory) Alloc(n int, huge bool) (uint32, uint64, []byte, error) {
	ctx, cancel := daemonPatience()
	defer cancel()
	id, key, mem, err := m.a.Alloc(ctx, n, huge)
	if err != nil {
		return 0, 0, nil, shareRefusal(err)
	}
	return id, key, mem[:n], nil
}

// Register asks the daemon to map the file. It fails for memory outside of a file, because the
// daemon cannot map such memory.
func (m *attachedMemory) Register(mem []byte, of *proc.File, sealed bool) (uint32, uint64, error) {
	if of == nil {
		const text = "%w: a NIC daemon cannot reach %d bytes of this program's memory; use Alloc, " +
			"AllocHuge or RegisterFile"
		return 0, 0, fmt.Errorf(text, ErrBadArgument, len(mem))
	}
	// The daemon would refuse the file and end the connection.
	if err := filemem.Lasting(of.FD); err != nil {
		return 0, 0, fmt.Errorf("%w: to a NIC daemon: %w", ErrBadArgument, err)
	}
	ctx, cancel := daemonPatience()
	defer cancel()
	id, key, err := m.a.Register(ctx, of.FD, of.Offset, len(mem), sealed)
	return id, key, shareRefusal(err)
}

func (m *attachedMemory) Part(of uint32, offset, n int, sealed bool) (uint32, uint64, error) {
	ctx, cancel := daemonPatience()
	defer cancel()
	id, key, err := m.a.Part(ctx, of, offset, n, sealed)
	return id, key, shareRefusal(err)
}

func (m *attachedMemory) Free(id uint32) error {
	ctx, cancel := daemonPatience()
	defer cancel()
	return shareRefusal(m.a.Free(ctx, id))
}
