package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// Client sends requests to the sites of NICs. Ask sends one request to one NIC, 0 being the own,
// and returns the answer. If several NICs are asked at once, each request has its own goroutine.
type Client struct {
	Ask func(ctx context.Context, nic registry.NICID, r *ctl.Program) (*ctl.ProgramReply, error)

	// InTurn means that NICs are asked one after the other, each with its full time. It is for an
	// Ask that belongs to one goroutine.
	InTurn bool
}

// Options tells how to load a program.
type Options struct {
	ID uint32 // 0: a free one, the same on all NICs; with Replace, see there
	// Replace replaces the program with the number ID. If ID is 0, it replaces on each NIC the
	// program with the module's name, whatever its number, or none if none has the name.
	Replace bool
	Start   bool
	// Resident is the place of a resident program, to which messages of other NICs come as
	// datagrams: in the driver ("xdp"), in the virtual machine ("vm"), or in the driver if
	// possible ("auto"). If it is empty, the program is not resident; messages come reliably.
	Resident string
	Guards   string // the process whose messages it filters, app/index; empty: none
	Outgoing bool   // it filters what that process sends, not what it receives
	Trigger  uint32 // the trigger of filtered messages
}

// Placed describes a program loaded into one NIC.
type Placed struct {
	NIC  registry.NICID
	ID   uint32
	Kept bool // it kept the data of the replaced program

	Resident string // where a resident program is, "vm" or "xdp"
	Why      string // why it is not in the driver, if the NIC chose
	Aborted  string // why its initialisation was aborted, so it is stopped; empty: it was not

	key uint64
}

// At adds to an error the NIC at which it occurred, unless the error names it.
func At(nic registry.NICID, err error) error {
	if nic != 0 && strings.Contains(err.Error(), nic.String()) {
		return err
	}
	return fmt.Errorf("%s: %w", called(nic), err)
}

// called returns a NIC in words.
func called(nic registry.NICID) string {
	if nic == 0 {
		return "the NIC of this host"
	}
	return fmt.Sprintf("NIC %v", nic)
}

// rollBackWithin bounds how long each NIC is asked to undo what it has prepared: longer than a
// daemon waits for another's answer. A NIC that cannot be asked forgets what it has only prepared
// by itself.
const rollBackWithin = 5 * time.Second

// Load puts a module into all of some NICs, or into none. The error names the NICs that have
// failed, and those whose program could not be taken back.
func (c *Client) Load(ctx context.Context, nics []registry.NICID, module []byte, o Options) ([]Placed, error) {
	all, err := c.prepareAll(ctx, nics, module, o)
	if err != nil {
		return nil, err
	}
	for i := range all {
		p := &all[i]
		r, err := c.Ask(ctx, p.NIC, &ctl.Program{Do: ctl.ProgramCommit, Key: p.key})
		if err != nil {
			return nil, fmt.Errorf("%s, which had prepared it: %w; %s", called(p.NIC), err,
				takenBack(c.rollBack(ctx, all)))
		}
		p.Kept, p.Aborted = r.Kept, r.Why
	}
	for _, p := range all { // a NIC that does not get this makes the program final by itself
		_, _ = c.Ask(ctx, p.NIC, &ctl.Program{Do: ctl.ProgramSettle, Key: p.key})
	}
	return all, nil
}

// prepareAll makes all NICs prepare a module, or none. If the client chose the number, another
// load at the same time may have taken it; then prepareAll chooses another. It tries as often as
// a NIC may have other programs prepared, since a NIC's list does not show those.
func (c *Client) prepareAll(ctx context.Context, nics []registry.NICID, module []byte, o Options) ([]Placed, error) {
	for from, tries := uint32(1), limits.ProgramPrepared; ; tries-- {
		number, places, err := c.places(ctx, nics, module, o, from)
		if err != nil {
			return nil, fmt.Errorf("%w; the program is loaded nowhere", err)
		}
		var all []Placed
		for i, nic := range nics {
			var p Placed
			if p, err = c.prepare(ctx, nic, module, places[i]); err != nil {
				err = fmt.Errorf("%w; the program is loaded nowhere%s", At(nic, err), forgotten(c.rollBack(ctx, all)))
				break
			}
			all = append(all, p)
		}
		if err == nil {
			return all, nil
		}
		if number == 0 || tries == 0 || !errors.Is(err, ctl.ErrTaken) {
			return nil, err
		}
		from = number + 1
	}
}

// prepare sends a module to a NIC and makes the NIC prepare it.
func (c *Client) prepare(ctx context.Context, nic registry.NICID, module []byte, o Options) (Placed, error) {
	key := uint64(0)
	for at := 0; at < len(module) || at == 0; {
		n := min(ctl.ProgramPiece, len(module)-at)
		r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramPut, Key: key, Total: len(module), Offset: at,
			Bytes: module[at : at+n]})
		if err != nil {
			return Placed{}, err
		}
		key = r.Key
		if at += n; n == 0 {
			break
		}
	}
	r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramPrepare, Key: key, ID: o.ID, Replace: o.Replace,
		Start: o.Start, Resident: o.Resident,
		Guards: o.Guards, Outgoing: o.Outgoing, Trigger: o.Trigger})
	if err != nil {
		return Placed{}, err
	}
	return Placed{NIC: nic, ID: r.ID, Resident: r.Resident, Why: r.Why, key: r.Key}, nil
}

// rollBack makes NICs take back what they have prepared or committed, and describes those that do
// not. Each NIC has the same time, however many others do not answer.
func (c *Client) rollBack(ctx context.Context, all []Placed) (left []string) {
	why := make([]error, len(all))
	undo := func(i int) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollBackWithin)
		defer cancel()
		_, why[i] = c.Ask(ctx, all[i].NIC, &ctl.Program{Do: ctl.ProgramUndo, Key: all[i].key})
	}
	var wait sync.WaitGroup
	for i := range all {
		if c.InTurn {
			undo(i)
		} else {
			wait.Go(func() { undo(i) })
		}
	}
	wait.Wait()
	for i, err := range why {
		if err != nil {
			left = append(left, fmt.Sprintf("%s (%v)", called(all[i].NIC), err))
		}
	}
	return left
}

// takenBack says what happened to a program that some NICs may have committed already.
func takenBack(left []string) string {
	if len(left) == 0 {
		return "the program was taken back from all NICs"
	}
	return "the program could not be taken back from " + strings.Join(left, ", ") + "; the other NICs are as before"
}

// forgotten says what happens to preparations that NICs do not take back. It returns "" if there
// are none.
func forgotten(left []string) string {
	if len(left) == 0 {
		return ""
	}
	return fmt.Sprintf("; it could not be taken back from %s: what is prepared there is forgotten within %v",
		strings.Join(left, ", "), limits.PrepareWithin)
}

// List lists the programs of a NIC.
func (c *Client) List(ctx context.Context, nic registry.NICID) (all []ctl.ProgramInfo, err error) {
	for from := uint64(0); ; {
		r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramList, From: from})
		if err != nil {
			return nil, err
		}
		all = append(all, r.Programs...)
		if r.Next <= from {
			return all, nil
		}
		from = r.Next
	}
}

// Info describes a program of a NIC, by its number or name.
func (c *Client) Info(ctx context.Context, nic registry.NICID, id uint32, name string) (*ctl.ProgramInfo, error) {
	r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramList, ID: id, Name: name})
	if err != nil {
		return nil, err
	}
	if len(r.Programs) != 1 {
		return nil, fmt.Errorf("%s describes %d programs; expected one", called(nic), len(r.Programs))
	}
	return &r.Programs[0], nil
}

// Log returns the values that a program has displayed, from a number on, and the number of the
// first one. They come in pieces. If the program goes on meanwhile, Log returns what was kept at
// the first request. If some of that is overwritten before it is fetched, Log also leaves out the
// values before it.
func (c *Client) Log(ctx context.Context, nic registry.NICID, id uint32, name string, from uint64) (values []int64,
	first uint64, err error) {
	end := uint64(0) // the end of what was kept at the first request
	for at := from; ; {
		r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramLog, ID: id, Name: name, From: at})
		if err != nil {
			return nil, 0, err
		}
		if end == 0 {
			end = r.First + limits.ProgramLog
		}
		if len(values) == 0 || r.First != at {
			values, first = nil, r.First
		}
		values = append(values, r.Values...)
		if r.Next <= at || r.Next >= end {
			return values, first, nil
		}
		at = r.Next
	}
}
