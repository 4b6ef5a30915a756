package weft

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Group is a process's membership in a group: a set of processes that do things together (QNIX-54). A process may be in
// several.
//
// The operations of a group are collective: every member calls the same ones in the same order, one at a time, with
// arguments that fit. The NICs carry them out between them; no process in between is woken.
//
// If a member leaves or ends, the operations that it had not completed fail at every other with [ErrGroupBroken] and its name,
// and so do all later ones; [Group.Shrink] makes the same group without it. A process that gives an operation up, because its
// context has ended, leaves the group: it has entered what the others wait for, and cannot take that back. An operation whose context
// has ended before it begins is not entered: it fails, and the process is in the group as before.
//
// Members that call different operations, broadcasts with different roots, or reductions of different lengths, types or operators, fail with
// [ErrGroupMismatch], and so do all later operations of the group, until Shrink makes it anew. A member whose parts have another length
// than those of others fails with [ErrBadArgument], and leaves the group. So does one whose own arguments do not fit one another, name no
// member or bring memory that cannot be used, and, with [ErrNoMemory], one that lacks memory: the others would wait for it. A call beside
// another one of the same group and process fails with ErrBadArgument, too, and does nothing.
//
// A group takes no member in later. To replace one that has ended, the others close the group, and all join it again; a process that
// joins before that waits for them.
type Group struct{ g *proc.Group }

// GroupError says which operation of which group failed, and why. If a member has left or ended, Dead is its name.
type GroupError struct {
	Op    string
	Group string
	Dead  Name // AnyProcess if the reason is another
	Err   error
}

func (e *GroupError) Error() string {
	s := "weft: " + e.Op + " in group " + e.Group + ": "
	if e.Dead != AnyProcess {
		s += e.Dead.String() + " has left or ended: "
	}
	return s + e.Err.Error()
}

// Unwrap gives the why.
func (e *GroupError) Unwrap() error { return e.Err }

// groupError gives an error of a group its public form.
func groupError(err error) error {
	if e, ok := err.(*proc.GroupError); ok {
		return &GroupError{Op: e.Op, Group: e.Group, Dead: nameOf(e.Dead), Err: e.Err}
	}
	return err
}

// Join makes this process a member of a group of size members and waits until all have joined. A group's name has 1 to 24
// bytes of a–z, 0–9, '.', '_' and '-'. By convention that of an application is the group of all its processes (QNIX-55).
// Which processes are to come the group does not know: one that ends before it has joined is waited for until ctx ends.
//
// [ErrGroupSize] says that others expect another size, or that the group has all its members; [ErrGroupJoined] that this
// process is in the group already, [ErrNoMemory] that it is in 64 groups. None disturbs the others.
func (p *Process) Join(ctx context.Context, group string, size int) (*Group, error) {
	g, err := p.p.Join(ctx, group, size)
	if err != nil {
		return nil, groupError(err)
	}
	return &Group{g}, nil
}

// Name is the group's name.
func (g *Group) Name() string { return g.g.Name() }

// Epoch is how often the group has shrunk.
func (g *Group) Epoch() int { return g.g.Epoch() }

// Rank is this process's place among the members, which are in the order of their names: 0 to Size−1.
func (g *Group) Rank() int { return g.g.Rank() }

// Size is how many members the group has.
func (g *Group) Size() int { return g.g.Size() }

// Member is the name of the member with a rank, 0 to Size−1.
func (g *Group) Member(rank int) Name { return nameOf(g.g.Member(rank).Name) }

// Barrier returns when every member has called it.
func (g *Group) Barrier(ctx context.Context) error { return groupError(g.g.Barrier(ctx)) }

// Broadcast copies buf of the member with rank root into that of every other; all are of the same length. It returns at
// the root when the NIC of every member has the bytes, elsewhere when they are in buf. A member whose buf is of another
// length fails: with ErrTruncated if the root's is longer, and with ErrGroupMismatch if it is shorter.
func (g *Group) Broadcast(ctx context.Context, root int, buf []byte) error {
	return groupError(g.g.Broadcast(ctx, root, buf))
}

// Gather brings part of every member, equally long, to the member with rank root, whose all has them by rank. The other
// members' all is not looked at.
func (g *Group) Gather(ctx context.Context, root int, part, all []byte) error {
	return groupError(g.g.Gather(ctx, root, part, all))
}

// AllGather is Gather that gives all to every member.
func (g *Group) AllGather(ctx context.Context, part, all []byte) error {
	return groupError(g.g.AllGather(ctx, part, all))
}

// Scatter cuts all of the member with rank root into equal parts, and brings each member the one of its rank. The other
// members' all is not looked at.
func (g *Group) Scatter(ctx context.Context, root int, all, part []byte) error {
	return groupError(g.g.Scatter(ctx, root, all, part))
}

// AllToAll brings part j of every member i to part i of member j. from and to have one part for each member, equally long.
func (g *Group) AllToAll(ctx context.Context, from, to []byte) error {
	return groupError(g.g.AllToAll(ctx, from, to))
}

// Shrink makes a new group, of the same name in a later epoch, of the members that are left, and closes this one. Every
// surviving member has to call it; it returns when they agree on which members those are.
func (g *Group) Shrink(ctx context.Context) (*Group, error) {
	n, err := g.g.Shrink(ctx)
	if n == nil {
		return nil, groupError(err)
	}
	return &Group{n}, groupError(err)
}

// Close leaves the group. What this process has completed completes at the others too; what it has not fails.
func (g *Group) Close() error { return groupError(g.g.Close()) }

// Element is what reductions combine.
type Element interface{ int64 | float64 }

// Operator is how a reduction combines two elements.
type Operator int

// The operators. And, Or and Xor are for int64 alone. Sums of float64 are added up in the same order in every run, which
// is not that of the ranks. Those of int64 wrap around. A NaN among the elements makes the result NaN.
const (
	Sum Operator = iota
	Min
	Max
	And
	Or
	Xor
)

func (o Operator) String() string {
	names := [...]string{"sum", "min", "max", "and", "or", "xor"}
	if o >= 0 && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("operator-%d", int(o))
}

var operators = map[Operator][2]vni.Operator{ // of int64, of float64
	Sum: {vni.SumInt64, vni.SumFloat64}, Min: {vni.MinInt64, vni.MinFloat64}, Max: {vni.MaxInt64, vni.MaxFloat64},
	And: {vni.AndInt64}, Or: {vni.OrInt64}, Xor: {vni.XorInt64},
}

// Reduce combines the vectors of all members element by element, and leaves the result in that of the member with rank
// root. All vectors are of the same length. The others' stay as they are.
func Reduce[T Element](ctx context.Context, g *Group, root int, o Operator, vector []T) error {
	if root < 0 || root >= g.Size() {
		return g.bad(ctx, "reduce", fmt.Sprintf("root %d; expected 0 to %d", root, g.Size()-1))
	}
	return reduce(ctx, g, root, o, vector)
}

// AllReduce is Reduce that leaves the result in the vector of every member.
//
// Both reduce vectors of 64 KiB and more for each member in parts, for which each member has a region of twice the length of the vector until the group is closed.
// A member that may have no more regions has all of them reduce as short vectors are, which takes longer.
func AllReduce[T Element](ctx context.Context, g *Group, o Operator, vector []T) error {
	return reduce(ctx, g, proc.All, o, vector)
}

func reduce[T Element](ctx context.Context, g *Group, root int, o Operator, vector []T) error {
	kind := 0
	if _, ok := any(vector).([]float64); ok {
		kind = 1
	}
	op := operators[o][kind]
	if !op.Valid() {
		return g.bad(ctx, "reduce", fmt.Sprintf("operator %v on %T", o, vector))
	}
	b, own := bytesOf(vector)
	err := groupError(g.g.Reduce(ctx, root, op, b))
	if err == nil && own && (root == proc.All || root == g.Rank()) {
		fromBytes(vector, b)
	}
	return err
}

func (g *Group) bad(ctx context.Context, op, what string) error {
	return groupError(g.g.Refuse(ctx, op, fmt.Errorf("%w: %s", ErrBadArgument, what)))
}

// littleEndian says whether vectors here look as they do on the wire.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf is a vector in the byte order of the wire: its own memory where that is the host's order, else a copy.
func bytesOf[T Element](v []T) (b []byte, own bool) {
	if len(v) == 0 {
		return nil, false
	}
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 8*len(v)), false
	}
	b = make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, bitsOf(x))
	}
	return b, true
}

func bitsOf[T Element](x T) uint64 {
	if f, ok := any(x).(float64); ok {
		return math.Float64bits(f)
	}
	return uint64(any(x).(int64))
}

func fromBytes[T Element](v []T, b []byte) {
	for i := range v {
		u := binary.LittleEndian.Uint64(b[8*i:])
		switch p := any(&v[i]).(type) {
		case *int64:
			*p = int64(u)
		case *float64:
			*p = math.Float64frombits(u)
		}
	}
}
