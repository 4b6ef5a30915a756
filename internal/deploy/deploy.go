// Package deploy puts programs into NICs: into one, or into all or none of a fabric (PANIC-2,
// PANIC-22). A Site is the NIC's side. A Client sends requests to sites, by any path that leads
// to them:
//
//	Client ── put, put, …, prepare ──► Site: verified, in memory   on every NIC; if one fails,
//	                                                               undo on all
//	       ── commit ────────────────► in its place                on every NIC; if one fails,
//	                                                               undo on all
//	       ── settle ────────────────► final
//
// Requests and answers are those of package ctl. Tools, daemons, and programs with a NIC inside
// use them alike.
package deploy

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// Site answers requests about the programs of one NIC. It is safe for concurrent use.
type Site struct {
	// NIC is the NIC's id.
	NIC registry.NICID
	// Do calls f while its goroutine owns the engine, and makes the engine poll soon.
	Do func(f func(t *program.Table))
	// May returns what an asker may do. It is called for each request.
	May func(a Asker) Rights

	// Driver makes a program reside in the driver of the link. It fails, with the reason, if the
	// driver or this program cannot. It is nil if there is no such link.
	Driver func(id vm.ID, m *prog.Module) (program.Resident, error)

	mu      sync.Mutex
	uploads []*upload // oldest first
	lastKey uint64
}

// upload is a module that arrives in pieces.
type upload struct {
	key  uint64
	by   Asker
	body []byte
	got  int
}

// Answer serves a request, if its asker may make it.
func (s *Site) Answer(a Asker, r *ctl.Program) (reply *ctl.ProgramReply, err error) {
	rights := s.May(a)
	if err := s.refuse(a, &rights, r.Do); err != nil {
		return nil, err
	}
	switch r.Do {
	case ctl.ProgramPut:
		return s.put(a, r)
	case ctl.ProgramPrepare:
		return s.prepare(a, &rights, r)
	}
	s.Do(func(t *program.Table) { reply, err = s.onTable(t, a, &rights, r) })
	return reply, sentinel(err)
}

// onTable serves the requests that need only the engine.
func (s *Site) onTable(t *program.Table, a Asker, rights *Rights, r *ctl.Program) (*ctl.ProgramReply, error) {
	switch r.Do {
	case ctl.ProgramCommit, ctl.ProgramUndo, ctl.ProgramSettle:
		return onPrepared(t, a, r)
	}
	if r.Do == ctl.ProgramList && r.ID == 0 && r.Name == "" {
		page, next := ctl.Page(describe(s.NIC, t.List()...), int(min(r.From, limits.Programs)))
		return &ctl.ProgramReply{Programs: page, Next: uint64(next)}, nil
	}
	id := vm.ID(r.ID)
	if r.Name != "" {
		ids := t.FindAll(r.Name)
		if len(ids) > 1 {
			return nil, badRequest("%d programs of NIC %v are called %q: the numbers %s; expected one of these numbers",
				len(ids), s.NIC, r.Name, strings.Trim(fmt.Sprint(ids), "[]"))
		}
		if len(ids) == 1 {
			id = ids[0] // otherwise 0, which no program has
		}
	}
	if r.Do == ctl.ProgramUnload {
		if err := t.MayUnload(id, a.owner(), rights.GuardAny); err != nil {
			return nil, err
		}
	}
	reply, err := s.onProgram(t, r, id)
	switch {
	case !errors.Is(err, program.ErrNoProgram):
		return reply, err
	case r.Name != "":
		return nil, fmt.Errorf("%w: NIC %v has none that is called %q", program.ErrNoProgram, s.NIC, r.Name)
	}
	return nil, fmt.Errorf("%w: NIC %v has none with the number %d", program.ErrNoProgram, s.NIC, id)
}

// onProgram serves a request about one program.
func (s *Site) onProgram(t *program.Table, r *ctl.Program, id vm.ID) (*ctl.ProgramReply, error) {
	switch r.Do {
	case ctl.ProgramList:
		info, ok := t.Info(id)
		if !ok {
			return nil, program.ErrNoProgram
		}
		return &ctl.ProgramReply{Programs: describe(s.NIC, info)}, nil
	case ctl.ProgramUnload:
		return &ctl.ProgramReply{ID: uint32(id)}, t.Unload(id)
	case ctl.ProgramStart:
		o, err := t.Begin(id)
		if err != nil {
			return nil, err
		}
		if o == vm.NoProgram || o == vm.Inactive {
			return nil, notStarted(t, id)
		}
		if why := failedToBegin(t, id); why != "" {
			return nil, fmt.Errorf("start program %d: %w: %s", id, ErrBegin, why)
		}
		return &ctl.ProgramReply{ID: uint32(id), Outcome: o.String()}, nil
	case ctl.ProgramSend:
		return &ctl.ProgramReply{ID: uint32(id)}, t.Post(id, r.Trigger, r.Bytes)
	}
	return s.log(t, id, r.From)
}

// onPrepared serves a request about a preparation of the asker.
func onPrepared(t *program.Table, a Asker, r *ctl.Program) (*ctl.ProgramReply, error) {
	switch owner, err := t.PreparedBy(r.Key); {
	case err != nil:
		return nil, err
	case owner != a.owner():
		return nil, fmt.Errorf("program: %w: %d", program.ErrKey, r.Key)
	}
	switch r.Do {
	case ctl.ProgramUndo:
		return &ctl.ProgramReply{}, t.Undo(r.Key)
	case ctl.ProgramSettle:
		return &ctl.ProgramReply{}, t.Settle(r.Key)
	}
	id, kept, err := t.Commit(r.Key)
	return &ctl.ProgramReply{ID: uint32(id), Kept: kept, Why: failedToBegin(t, id)}, err
}

// notStarted returns why a program cannot be started.
func notStarted(t *program.Table, id vm.ID) error {
	info, ok := t.Info(id)
	switch {
	case !ok:
		return fmt.Errorf("start program %d: %w", id, program.ErrNoProgram)
	case info.Running:
		return fmt.Errorf("start program %d: %w: %s runs", id, ErrOutcome, info.Module.Name)
	}
	return fmt.Errorf("start program %d: %w: %s is stopped; replace it to have it begin anew", id,
		ErrOutcome, info.Module.Name)
}

// failedToBegin returns why the initialisation of a stopped program was aborted, or "" if it was
// not.
func failedToBegin(t *program.Table, id vm.ID) string {
	info, _ := t.Info(id)
	if !info.Unbegun {
		return ""
	}
	return fmt.Sprintf("%v, line %d", info.LastAbort, info.Profile.LastLine)
}

// ErrBegin means that a program is stopped since its initialisation was aborted.
var ErrBegin = errors.New("its initialisation was aborted, and it is stopped")

// ErrOutcome is the error for a loaded program that cannot be started.
var ErrOutcome = errors.New("it is not waiting to be started")

// put takes a piece of a module.
func (s *Site) put(a Asker, r *ctl.Program) (*ctl.ProgramReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var u *upload
	if r.Key == 0 {
		if r.Total < 1 || r.Total > prog.MaxModule {
			return nil, badRequest("module of %d bytes; expected 1 to %d", r.Total, prog.MaxModule)
		}
		s.lastKey++
		u = &upload{key: s.lastKey, by: a, body: make([]byte, r.Total)}
		if len(s.uploads) >= limits.ProgramPrepared {
			s.uploads = s.uploads[1:]
		}
		s.uploads = append(s.uploads, u)
	} else if u = s.upload(r.Key, a); u == nil {
		return nil, badRequest("no module has come under key %d", r.Key)
	}
	if r.Offset != u.got || len(r.Bytes) > len(u.body)-u.got {
		return nil, badRequest("%d bytes at %d of a module of which %d of %d have come", len(r.Bytes), r.Offset,
			u.got, len(u.body))
	}
	u.got += copy(u.body[u.got:], r.Bytes)
	return &ctl.ProgramReply{Key: u.key}, nil
}

func (s *Site) upload(key uint64, a Asker) *upload {
	for _, u := range s.uploads {
		if u.key == key && u.by == a {
			return u
		}
	}
	return nil
}

// prepare verifies an uploaded module, and takes memory for it.
func (s *Site) prepare(a Asker, rights *Rights, r *ctl.Program) (*ctl.ProgramReply, error) {
	s.mu.Lock()
	u := s.upload(r.Key, a)
	for i := range s.uploads {
		if s.uploads[i] == u {
			s.uploads = append(s.uploads[:i], s.uploads[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	if u == nil || u.got < len(u.body) {
		return nil, badRequest("the module of key %d has not come whole", r.Key)
	}
	m, err := prog.Decode(u.body)
	if err != nil {
		return nil, badRequest("%w", err)
	}
	spec := program.Spec{Module: m, ID: vm.ID(r.ID), Replace: r.Replace, Start: r.Start, Resident: r.Resident != "",
		Trigger: r.Trigger,
		Owner:   a.owner(), GuardAny: rights.GuardAny}
	if r.Outgoing && r.Guards == "" {
		return nil, badRequest("a guard of outgoing messages names no process; expected one, such as app/3")
	}
	if r.Guards != "" {
		spec.Outgoing = r.Outgoing
		if spec.Guards, err = vni.ParseName(r.Guards); err != nil {
			return nil, badRequest("the process to guard: %w", err)
		}
		if _, ok := m.Find(r.Trigger); !ok {
			return nil, badRequest("%s has no trigger %d to see messages for %s by", m.Name, r.Trigger, r.Guards)
		}
	}
	reply := &ctl.ProgramReply{}
	s.Do(func(t *program.Table) {
		reply.Key, spec.ID, err = t.Prepare(spec)
		reply.ID = uint32(spec.ID)
	})
	if err == nil && spec.Resident {
		err = s.reside(r.Resident, &spec, reply)
	}
	return reply, sentinel(err)
}

// reside puts a prepared program where it is to reside. The kernel checks it for some
// milliseconds; the engine goes on meanwhile.
func (s *Site) reside(where string, spec *program.Spec, reply *ctl.ProgramReply) error {
	reply.Resident = ctl.ResidentVM
	if where == ctl.ResidentVM {
		return nil
	}
	err := s.enterDriver(spec, reply.Key)
	switch {
	case err == nil:
		reply.Resident = ctl.ResidentXDP
	case where == ctl.ResidentAuto:
		reply.Why = err.Error()
	default:
		s.Do(func(t *program.Table) { err = errors.Join(err, t.Undo(reply.Key)) })
		return &refusal{err, ctl.ErrBadRequest}
	}
	return nil
}

func (s *Site) enterDriver(spec *program.Spec, key uint64) error {
	if s.Driver == nil {
		return fmt.Errorf("%s cannot reside in the driver: the link of NIC %v is not AF_XDP", spec.Module.Name, s.NIC)
	}
	if !spec.Guards.IsZero() {
		return fmt.Errorf("%s cannot reside in the driver: it guards %v, whose messages come by other ways too",
			spec.Module.Name, spec.Guards)
	}
	r, err := s.Driver(spec.ID, spec.Module)
	if err != nil {
		return err
	}
	s.Do(func(t *program.Table) {
		if err = t.Reside(key, r); err != nil {
			err = errors.Join(err, r.Close())
		}
	})
	return err
}

// log returns a part of the values that a program has displayed.
func (s *Site) log(t *program.Table, id vm.ID, from uint64) (*ctl.ProgramReply, error) {
	values, first, err := t.Log(id, from)
	if err != nil {
		return nil, err
	}
	reply := &ctl.ProgramReply{ID: uint32(id), First: first, Values: values}
	if len(values) > ctl.ProgramValues {
		reply.Values, reply.Next = values[:ctl.ProgramValues], first+ctl.ProgramValues
	}
	return reply, nil
}

// describe describes programs of a NIC.
func describe(nic registry.NICID, programs ...program.Info) (l []ctl.ProgramInfo) {
	for _, p := range programs {
		m := p.Module
		i := ctl.ProgramInfo{ID: uint32(p.ID), Name: m.Name, NIC: nic, State: p.State(),
			Owner: ownerUID(p.Spec.Owner), OwnerNIC: registry.NICID(p.Spec.Owner.NIC),
			OwnerUser: p.Spec.Owner.User, Resident: residence(&p), Lacks: p.Lacks,
			Hash: fmt.Sprintf("%x", m.Hash())[:16], Code: len(m.Code), Data: m.DataWords,
			Activations:  p.Profile.Activations,
			Instructions: p.Profile.Instructions, Time: p.Profile.Time, Refused: p.Profile.Refused, Shown: p.Shown,
			Dropped: p.Dropped, Delayed: p.Delayed, Lost: lost(p.Lost)}
		if p.LastAbort != vm.None {
			i.Why, i.Line = p.LastAbort.String(), p.Profile.LastLine
		}
		if !p.Spec.Guards.IsZero() {
			i.Guards, i.Outgoing = p.Spec.Guards.String(), p.Spec.Outgoing
		}
		for _, tr := range m.Triggers {
			i.Triggers = append(i.Triggers, tr.Number)
		}
		for cause, n := range p.Profile.Aborts {
			if n > 0 {
				if i.Aborts == nil {
					i.Aborts = map[string]uint64{}
				}
				i.Aborts[vm.Cause(cause).String()] = n
			}
		}
		l = append(l, i)
	}
	return l
}

// lost returns the losses in the driver by name, or nil if there are none.
func lost(l program.Losses) map[string]uint64 {
	if l == (program.Losses{}) {
		return nil
	}
	all := map[string]uint64{"answers that could not leave": l.Answers, "displayed values without room": l.Displays,
		"messages that found it busy": l.Busy, "messages that came twice, or behind a later one": l.Overtaken}
	maps.DeleteFunc(all, func(_ string, n uint64) bool { return n == 0 })
	return all
}

// ownerUID returns the number of a local owner, and -1 for one of another NIC.
func ownerUID(o program.Owner) int {
	if o.NIC != 0 {
		return -1
	}
	return o.UID
}

// residence returns where a program resides, or "" if it does not.
func residence(p *program.Info) string {
	switch {
	case p.InDriver:
		return ctl.ResidentXDP
	case p.Spec.Resident:
		return ctl.ResidentVM
	}
	return ""
}

// sentinel translates the engine's errors to those of package ctl.
func sentinel(err error) error {
	if errors.Is(err, program.ErrNoProgram) || errors.Is(err, program.ErrNoTrigger) {
		return &refusal{err, ctl.ErrNoProgram}
	}
	if errors.Is(err, program.ErrTaken) {
		return &refusal{err, ctl.ErrTaken}
	}
	if errors.Is(err, program.ErrDelays) {
		return &refusal{err, ctl.ErrBadRequest}
	}
	if errors.Is(err, program.ErrNotTheirs) {
		return &refusal{err, ctl.ErrRefused}
	}
	return err
}

// badRequest returns a refusal that says what is wrong with a request.
func badRequest(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...), ctl.ErrBadRequest}
}

// refusal is an error that also wraps an error of package ctl. Its text leaves out the words of
// that error, so that users read only what is wrong.
type refusal struct {
	error
	is error
}

func (r *refusal) Unwrap() []error { return []error{r.error, r.is} }
