package weft

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/filemem"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// AttachConfig says which NIC daemon to attach to, and under which name.
type AttachConfig struct {
	// Socket of the daemon. Empty takes the environment's WEFT_SOCKET, or else the first daemon that there is of the user's own, at
	// weft/nic.sock in $XDG_RUNTIME_DIR, in /run/user/UID, or at weft-UID/nic.sock in the directory for temporary files, and of the host's, at
	// /run/weft/nic.sock.
	Socket string

	// Name of the process.
	Name Name

	// Groups that it is a member of from the start, such as {Size: 4}: the four processes of the application. Attach waits
	// until they have all their members. What every process belongs to anyway is [Process.AppGroup].
	Groups []Membership

	// Geometry of its virtual network interface. The zero value is the daemon's choice, as is each zero field.
	Geometry Geometry
}

// Geometry is how large a process's virtual network interface is (QNIX-61). A daemon has bounds for each number, in the
// [vni] table of its configuration.
type Geometry struct {
	Commands    int // N: entries of the command queue; a multiple of 8. By default enough for the contexts
	Contexts    int // M: sends that may be under way at a time, and as many receives
	Descriptors int // K: pieces of memory that one operation may name
	PoolPages   int // Q: pages of 4 KiB in which messages are staged that are not in regions
}

// Attach makes this program a process of the host's NIC daemon, `weft nic`. If the daemon ends, every operation ends with
// [ErrNICGone].
//
// [ErrNoDaemon] says that nothing listens at the socket, [ErrNotTrusted] that something does which may be a stranger's, [ErrNotPermitted]
// that this user may not attach, [ErrFull] that the NIC has as many processes as it can have, [ErrOtherVersion] that daemon and program do
// not fit, [ErrNameTaken] that another process of the fabric has the name, as of [Open].
func Attach(ctx context.Context, cfg AttachConfig) (*Process, error) {
	if err := ended(ctx, "attach"); err != nil {
		return nil, err
	}
	if cfg.Name == AnyProcess {
		return nil, argument(errors.New("weft: AttachConfig.Name is empty; expected one such as app/0"))
	}
	if _, err := cfg.Name.vni(); err != nil {
		return nil, argument(fmt.Errorf("weft: AttachConfig.Name: %w", err))
	}
	conn, a, err := ask(ctx, &cfg)
	if err != nil {
		return nil, refusal(cfg.Name, err)
	}
	seg, err := vni.OpenSegment(a.RW, a.RO)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("weft: attach %v: %w", cfg.Name, err), a.Close(), a.Unmap())
	}
	half := seg.Process()
	w := &attachedWaiter{a.Waiter(ctl.Hooks{Listening: half.Listening, Sleeping: half.SetSleeping, WaitsAt: half.SetWaitsAt})}
	id := half.Identity()
	p := &Process{time: realTime{}, name: cfg.Name, addr: Address{NICID(id.NIC), id.Slot, id.Gen}}
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

// asking has a token for each connection of this program by which it asks a daemon to attach it. A daemon refuses more than
// limits.StrangersPerProcess that have not attached, and tools have some of them; a program with hundreds of processes attaches all at once.
var asking = make(chan struct{}, limits.StrangersPerProcess/2)

// ask connects to the daemon and is attached, when it is its turn.
func ask(ctx context.Context, cfg *AttachConfig) (*ctl.Conn, *ctl.Attachment, error) {
	select {
	case asking <- struct{}{}:
		defer func() { <-asking }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	conn, err := ctl.Dial(ctx, cfg.Socket)
	if err != nil {
		return nil, nil, err
	}
	a, err := conn.Attach(ctx, cfg.Name.String(), cfg.Geometry.ctl())
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, a, nil
}

// refusals are the reasons of a daemon, or of its absence, as users test for them.
var refusals = []struct{ of, is error }{
	{ctl.ErrRefused, ErrNotPermitted}, {fs.ErrPermission, ErrNotPermitted}, {ctl.ErrNoDaemon, ErrNoDaemon}, {ctl.ErrNotTrusted, ErrNotTrusted}, {ctl.ErrNoSlot, ErrFull},
	{driver.ErrNoSlot, ErrFull}, {ctl.ErrVersion, ErrOtherVersion}, {ctl.ErrNameTaken, ErrNameTaken}, {nic.ErrNameTaken, ErrNameTaken},
	{ctl.ErrBadRequest, ErrBadArgument}, {ctl.ErrNoMemory, ErrNoMemory},
	{nic.ErrRegions, ErrNoMemory}, {ctl.ErrRegionBusy, ErrRegionInUse}, {nic.ErrRegionBusy, ErrRegionInUse},
}

// severed says in words of this package that there is no connection to the daemon any more, which every request over it may find. Each passes
// its error through here.
func severed(err error) error {
	switch {
	case errors.Is(err, ctl.ErrClosed):
		return ErrClosed
	case errors.Is(err, ctl.ErrNICGone) && errors.Is(err, context.DeadlineExceeded): // it has not answered for so long
		return fmt.Errorf("%w: %w", ErrNICGone, err)
	case errors.Is(err, ctl.ErrNICGone):
		return ErrNICGone
	}
	return err
}

// refusal says why a process could not be attached.
func refusal(name Name, err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.of) {
			return &refused{name, r.is, err}
		}
	}
	return fmt.Errorf("weft: attach %v: %w", name, severed(err))
}

// shareRefusal says in words of this package why a segment could not be shared, or memory not be had or given back.
func shareRefusal(err error) error {
	err = severed(err)
	for _, r := range refusals {
		if err != nil && errors.Is(err, r.of) {
			return fmt.Errorf("%w (%w)", r.is, err)
		}
	}
	return err
}

// refused is an error that has gone through several hands, each of which said before it what it takes it for. It says that once.
type refused struct {
	name   Name
	is, by error
}

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
	for _, known := range refusals { // "ctl: no NIC daemon listens at …"
		if rest, found := strings.CutPrefix(why, known.of.Error()); found && known.is == r.is {
			return fmt.Sprintf("weft: attach %v: %v%s", r.name, r.is, rest)
		}
	}
	return fmt.Sprintf("weft: attach %v: %v: %s", r.name, r.is, strings.TrimPrefix(why, "ctl: "))
}

func (r *refused) Unwrap() []error { return []error{r.is, r.by} }

// attachedNames asks the daemon for the processes of the fabric.
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

// daemonPatience is how long the daemon may take with what it does at once. One that is stopped, or hangs, takes longer.
func daemonPatience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limits.DaemonPatience)
}

// attachedWaiter lets a process half wait for a daemon.
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

// attachedMemory makes regions that the daemon maps too.
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

// Register has the daemon map the file, too. Memory that lies in none it cannot reach.
func (m *attachedMemory) Register(mem []byte, of *proc.File, sealed bool) (uint32, uint64, error) {
	if of == nil {
		return 0, 0, fmt.Errorf("%w: %d bytes that this program has mapped, which its NIC daemon cannot reach; expected memory of Alloc or AllocHuge, or a file by RegisterFile", ErrBadArgument, len(mem))
	}
	if err := filemem.Lasting(of.FD); err != nil { // what the daemon would say, and end the connection
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
