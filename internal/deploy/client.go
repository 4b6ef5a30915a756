package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// Client asks the sites of NICs. Ask sends one request to one NIC, 0 being the own, and returns the answer.
type Client struct {
	Ask func(ctx context.Context, nic registry.NICID, r *ctl.Program) (*ctl.ProgramReply, error)
}

// Options say how a program is to be loaded.
type Options struct {
	ID       uint32 // 0: one that is free, the same on all NICs
	Replace  bool   // the program of that number, or name
	Start    bool
	Resident string // messages of other NICs come as datagrams: to the driver ("xdp"), to the virtual machine ("vm"), to the driver if it can be ("auto"); empty: reliably
	Guards   string // the process that it filters messages for, app/index; empty: none
	Trigger  uint32 // by which it sees them
}

// Placed is where a program has been put.
type Placed struct {
	NIC  registry.NICID
	ID   uint32
	Kept bool // the data of the one that it has replaced

	Resident string // where a resident program is, "vm" or "xdp"
	Why      string // it is not in the driver, where that was left to the NIC
	Aborted  string // why its initialisation was, after which it is stopped; empty: it was not

	key uint64
}

// At says at which NIC something went wrong, unless the error does.
func At(nic registry.NICID, err error) error {
	if nic != 0 && strings.Contains(err.Error(), nic.String()) {
		return err
	}
	return fmt.Errorf("%s: %w", called(nic), err)
}

// called is a NIC in words.
func called(nic registry.NICID) string {
	if nic == 0 {
		return "the NIC of this host"
	}
	return fmt.Sprintf("NIC %v", nic)
}

// rollBackWithin bounds how long NICs are asked to take back what they have prepared. What cannot be asked forgets it by itself.
const rollBackWithin = 5 * time.Second

// Load puts a module into all of some NICs, or into none. The error names the NICs that have failed, and says of those from which it could not
// be taken back.
func (c *Client) Load(ctx context.Context, nics []registry.NICID, module []byte, o Options) (all []Placed, err error) {
	for _, nic := range nics {
		p, err := c.prepare(ctx, nic, module, o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w; the program is loaded nowhere", At(nic, err)), c.rollBack(ctx, all))
		}
		o.ID = p.ID // the others take the same
		all = append(all, p)
	}
	for i := range all {
		p := &all[i]
		r, err := c.Ask(ctx, p.NIC, &ctl.Program{Do: ctl.ProgramCommit, Key: p.key})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s, which had prepared it: %w; the program was taken back from the others", called(p.NIC), err), c.rollBack(ctx, all))
		}
		p.Kept, p.Aborted = r.Kept, r.Why
	}
	for _, p := range all { // one that does not hear it makes it final by itself
		_, _ = c.Ask(ctx, p.NIC, &ctl.Program{Do: ctl.ProgramSettle, Key: p.key})
	}
	return all, nil
}

// prepare brings a module to a NIC and has it prepare it.
func (c *Client) prepare(ctx context.Context, nic registry.NICID, module []byte, o Options) (Placed, error) {
	key := uint64(0)
	for at := 0; at < len(module) || at == 0; {
		n := min(ctl.ProgramPiece, len(module)-at)
		r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramPut, Key: key, Total: len(module), Offset: at, Bytes: module[at : at+n]})
		if err != nil {
			return Placed{}, err
		}
		key = r.Key
		if at += n; n == 0 {
			break
		}
	}
	r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramPrepare, Key: key, ID: o.ID, Replace: o.Replace, Start: o.Start, Resident: o.Resident,
		Guards: o.Guards, Trigger: o.Trigger})
	if err != nil {
		return Placed{}, err
	}
	return Placed{NIC: nic, ID: r.ID, Resident: r.Resident, Why: r.Why, key: r.Key}, nil
}

// rollBack has NICs take back what they have prepared or committed.
func (c *Client) rollBack(ctx context.Context, all []Placed) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollBackWithin)
	defer cancel()
	var left []string
	for _, p := range all {
		if _, err := c.Ask(ctx, p.NIC, &ctl.Program{Do: ctl.ProgramUndo, Key: p.key}); err != nil {
			left = append(left, fmt.Sprintf("%s (%v)", called(p.NIC), err))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("it could not be taken back from %s", strings.Join(left, ", "))
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

// Log returns what a program has displayed, from a value on, and the number of the first that is still kept.
func (c *Client) Log(ctx context.Context, nic registry.NICID, id uint32, name string, from uint64) (values []int64, first uint64, err error) {
	for at := from; ; {
		r, err := c.Ask(ctx, nic, &ctl.Program{Do: ctl.ProgramLog, ID: id, Name: name, From: at})
		if err != nil {
			return nil, 0, err
		}
		if len(values) == 0 {
			first = r.First
		}
		values = append(values, r.Values...)
		if r.Next <= at {
			return values, first, nil
		}
		at = r.Next
	}
}
