package nic

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// TestScenarios runs the scripts in testdata/scenarios. Each command runs until nothing moves any
// more, and shows the results:
//
//	1→2 frag #1 of slot 1 to slot 1, tag 7, 100 bytes     a record on the wire
//	b/0: r1 ok, 100 bytes of tag 7 from a/0               the completion of the operation r1
//	b/0: event process-gone …                             an event
//
// The method command lists the commands. `go test -run Scenarios -rewrite` rewrites the output.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{f: &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: 1472})}, procs: map[string]*tester{}, ops: map[string]*scenarioOp{}}
		s.f.stepBy = func() { s.step() }
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.f.t, s.d = t, d
			s.out.Reset()
			s.command()
			s.settle(50 * time.Millisecond)
			return s.out.String()
		})
		for _, e := range s.f.engines {
			if err := e.Limits(); err != nil {
				t.Error(err)
			}
		}
	})
}

type scenario struct {
	f     *fabric
	d     *datadriven.TestData
	out   strings.Builder
	quiet bool
	taps  []*tap
	dead  []bool
	procs map[string]*tester
	names []string // of procs, in order
	ops   map[string]*scenarioOp
	order []string // of ops
	extra Config   // options of the next NICs
	mem   []byte   // memory of the last region
	hdl   vni.Remote
}

type scenarioOp struct {
	p       *tester
	receive bool
	ctx     int
	buf     []byte
	over    bool
}

func (s *scenario) printf(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(&s.out, format+"\n", args...)
	}
}

func (s *scenario) arg(i int) string {
	if i < len(s.d.CmdArgs) {
		return s.d.CmdArgs[i].Key
	}
	return ""
}

func (s *scenario) number(i int) int {
	n, err := strconv.Atoi(s.arg(i))
	if err != nil {
		s.d.Fatalf(s.f.t, "%v", err)
	}
	return n
}

// value returns the value of key=value, or "".
func (s *scenario) value(key string) string {
	for _, a := range s.d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

func (s *scenario) command() {
	s.quiet = s.d.HasArg("quiet")
	switch s.d.Cmd {
	case "nics": // nics N [credit=BYTES] [staging=BYTES] [apart]: N NICs that know one another
		if v := s.value("credit"); v != "" {
			n, _ := strconv.Atoi(v)
			s.extra.InitialCreditBytes = n
		}
		if v := s.value("staging"); v != "" {
			s.extra.StagingBytes, _ = strconv.Atoi(v)
		}
		for range s.number(0) {
			s.taps = append(s.taps, &tap{Driver: s.f.sw.Port(), s: s, apart: s.d.HasArg("apart")})
			s.dead = append(s.dead, false)
			s.f.engines = append(s.f.engines, nil)
			s.boot(len(s.taps), 1)
		}
	case "restart": // restart N: NIC N dies and comes back as another incarnation
		s.boot(s.number(0), 2)
		s.dead[s.number(0)-1] = false
	case "kill": // kill N: NIC N falls silent
		s.dead[s.number(0)-1] = true
	case "meet": // meet: NICs made apart learn of one another
		for _, t := range s.taps {
			t.apart = false
		}
		s.run(limits.HelloEvery)
	case "process": // process NIC NAME
		p := s.f.claim(s.number(0)-1, s.arg(1))
		s.f.until(5*time.Second, "the registration has ended", p.claimed)
		if p.refused != nil {
			s.printf("%v", p.refused)
			return
		}
		s.procs[s.arg(1)] = p
		s.names = append(s.names, s.arg(1))
	case "exit": // exit NAME
		p := s.procs[s.arg(0)]
		p.exit()
		delete(s.procs, s.arg(0))
		s.names = slices.DeleteFunc(s.names, func(n string) bool { return n == s.arg(0) })
	case "send", "multicast", "recv", "cancel", "region", "close", "put", "get":
		s.operation()
	case "run": // run DURATION
		d, err := time.ParseDuration(s.arg(0))
		if err != nil {
			s.d.Fatalf(s.f.t, "%v", err)
		}
		s.run(d)
	default:
		s.d.Fatalf(s.f.t, "no command %q", s.d.Cmd)
	}
}

func (s *scenario) run(d time.Duration) {
	for end := s.f.now.Add(d); s.f.now < end; {
		s.step()
	}
}

func (s *scenario) boot(id int, incarnation uint64) {
	cfg := s.extra
	cfg.RelaySaves = -1
	cfg.ID, cfg.Incarnation, cfg.Secrets, cfg.Link = uint64(id), incarnation, secret.Seeded(uint64(id)), s.taps[id-1]
	e, err := New(cfg)
	if err != nil {
		s.f.t.Fatal(err)
	}
	s.f.engines[id-1] = e
	for other := 1; other < id; other++ {
		if err := e.AddNode(uint64(other), mem.Address(other)); err != nil {
			s.f.t.Fatal(err)
		}
	}
}

// operation starts an operation:
//
//	send OP FROM TO tag=T size=N [delivered] [gen=G]   recv OP PROC from=NAME|any tag=T|any size=N
//	multicast OP FROM to=(NAME, …) tag=T size=N
//	region PROC size=N                                 put OP PROC size=N [offset=O] [key=wrong]
//	                                                   get likewise
//	cancel OP                                          close PROC: the region
func (s *scenario) operation() {
	size, _ := strconv.Atoi(s.value("size"))
	tag, _ := strconv.ParseUint(s.value("tag"), 10, 64)
	op := &scenarioOp{p: s.procs[s.arg(1)], buf: make([]byte, size)}
	flags := uint32(0)
	switch s.d.Cmd {
	case "send":
		if s.d.HasArg("delivered") {
			flags |= vni.WantAccept
		}
		to, err := vni.ParseName(s.arg(2))
		if err != nil {
			s.f.t.Fatal(err)
		}
		c := &vni.SendContext{Receiver: to, Tag: tag, Flags: flags | vni.WantNotify}
		if s.value("gen") == "stale" {
			at, _ := op.p.e.Lookup(to)
			c.NIC, c.Slot, c.Gen = at.NIC, at.Slot, at.Gen-1
		}
		op.ctx = op.p.start(vni.CodeSend, c, pattern(size, byte(tag)))
	case "multicast":
		var to []string
		for _, a := range s.d.CmdArgs {
			if a.Key == "to" {
				to = a.Vals
			}
		}
		op.ctx = op.p.multicast(to, tag, pattern(size, byte(tag)))
	case "recv":
		from := s.value("from")
		if from == "any" {
			from = ""
		}
		if s.value("tag") == "any" {
			flags = vni.AnyTag
		}
		op.receive = true
		op.ctx = op.p.recv(from, tag, flags, op.buf)
	case "cancel":
		o := s.ops[s.arg(0)]
		list := vni.CancelSend
		if o.receive {
			list = vni.CancelReceive
		}
		o.p.post(vni.Command{Code: vni.CodeCancel, Context: uint16(o.ctx), Size: list})
		return
	case "region":
		p := s.procs[s.arg(0)]
		s.mem = make([]byte, size)
		id, key, err := p.e.AddRegion(p.slot, s.mem)
		if err != nil {
			s.f.t.Fatal(err)
		}
		s.hdl = vni.Remote{NIC: p.e.ID(), Slot: p.slot, Gen: p.gen, Region: id, Key: key}
		return
	case "close":
		p := s.procs[s.arg(0)]
		if err := p.e.RemoveRegion(s.f.now, p.slot, p.gen, s.hdl.Region); err != nil {
			s.printf("%v", err)
		}
		return
	default:
		c := &vni.SendContext{Flags: vni.WantNotify, Remote: s.hdl}
		if s.value("key") == "wrong" {
			c.Remote.Key++
		}
		c.Remote.Offset, _ = strconv.ParseUint("0"+s.value("offset"), 10, 64)
		code := vni.CodePut
		if s.d.Cmd == "get" {
			code = vni.CodeGet
		}
		op.ctx = op.p.start(code, c, op.buf)
	}
	s.ops[s.arg(0)] = op
	s.order = append(s.order, s.arg(0))
}

// settle runs until nothing moves, except for what only the time d could bring.
func (s *scenario) settle(d time.Duration) {
	end := s.f.now.Add(d)
	for idle := 0; idle < 5 && s.f.now < end; idle++ {
		if s.step() > 0 {
			idle = 0
		}
	}
}

// step polls every living NIC and shows the results.
func (s *scenario) step() (work int) {
	next := clock.Never
	for i, e := range s.f.engines {
		if !s.dead[i] {
			w, n := e.Poll(s.f.now)
			work += w
			next = clock.Min(next, n)
		}
	}
	s.f.now = s.f.now.Add(time.Microsecond)
	if work == 0 && next > s.f.now {
		s.f.now = clock.Min(next, s.f.now.Add(10*time.Millisecond))
	}
	for _, name := range s.order {
		if op := s.ops[name]; !op.over && op.p.done(op.receive, op.ctx) {
			op.over = true
			s.show(name, op)
		}
	}
	for _, name := range s.names {
		if ev, _, ok := s.procs[name].v.NextEvent(); ok {
			s.printf("%s: event: %v", name, ev)
		}
	}
	return work
}

func (s *scenario) show(name string, op *scenarioOp) {
	c := op.p.v.Completion(op.receive, op.ctx)
	op.p.v.Release(op.receive, op.ctx)
	switch {
	case !op.receive || c.Status != vni.StatusOK && c.Status != vni.StatusTruncated:
		s.printf("%v: %s %v", op.p.name, name, c.Status)
	default:
		damage := ""
		if !bytes.Equal(op.buf[:c.Len], pattern(int(c.Full), byte(c.Tag))[:c.Len]) {
			damage = ", DAMAGED"
		}
		s.printf("%v: %s %v, %d of %d bytes of tag %d from %v%s", op.p.name, name, c.Status, c.Len, c.Full, c.Tag, c.From, damage)
	}
}

// tap is a link that shows every record that passes it. Records that leave a part of a divided
// network are lost.
type tap struct {
	link.Driver
	s     *scenario
	to    link.Addr
	frame []byte
	apart bool
}

func (t *tap) Reserve(to link.Addr) []byte {
	t.to = to
	t.frame = t.Driver.Reserve(to)
	return t.frame
}

// Caps returns no capabilities, so frames leave by Commit, one by one.
func (t *tap) Caps() link.Caps { return link.Caps{} }

func (t *tap) Commit(n int) {
	from, to := t.Addr().Addr().As16(), t.to.Addr().As16()
	arrow := fmt.Sprintf("%d→%d", from[15], to[15])
	if o, body, err := wire.ParseOuter(t.frame[:n]); err == nil && o.Kind == wire.KindData && !t.apart {
		if _, records, err := wire.ParseInner(body); err == nil {
			t.show(arrow, records)
		}
	}
	if !t.apart {
		t.Driver.Commit(n)
	}
}

// show prints records; consecutive pieces become one line.
func (t *tap) show(arrow string, records []byte) {
	for len(records) > 0 {
		var r wire.Record
		r, records = wire.NextRecord(records)
		t.s.printf("%s %s", arrow, describe(r))
	}
}

func describe(r wire.Record) string {
	envelope := func(e wire.Envelope) string {
		s := fmt.Sprintf("#%d of slot %d to slot %d, tag %d", e.Number, e.SrcSlot, e.DstSlot, e.Tag)
		if e.Flags&wire.FlagAccept != 0 {
			s += ", wants accept"
		}
		return s
	}
	get := ""
	if r.Flags()&wire.FlagGet != 0 && r.Type() != wire.TypeCredit && r.Type() != wire.TypeTable {
		get = " of a GET"
	}
	switch r.Type() {
	case wire.TypeFrag:
		return fmt.Sprintf("frag %s, %d bytes", envelope(r.Frag()), len(r.Payload()))
	case wire.TypeRun:
		e, lengths, data := r.Run()
		return fmt.Sprintf("run %s, %d messages, %d bytes", envelope(e), lengths.Count(), len(data))
	case wire.TypeEager:
		id, offset := r.Chunk()
		length, e := r.Eager()
		return fmt.Sprintf("eager %s, fragment %d, bytes %d…%d of %d", envelope(e), id, offset, offset+uint64(len(r.Payload())), length)
	case wire.TypeChunk:
		id, offset := r.Chunk()
		return fmt.Sprintf("chunk%s, fragment %d, bytes %d…%d", get, id, offset, offset+uint64(len(r.Payload())))
	case wire.TypeRequest:
		q := r.Request()
		return fmt.Sprintf("request %s, fragment %d, %d bytes", envelope(q.Envelope), q.ID, q.Length)
	case wire.TypePermission:
		id, limit := r.Permission()
		return fmt.Sprintf("permission%s, fragment %d, up to byte %d", get, id, limit)
	case wire.TypeRefuse:
		id, slot, _, why := r.Refuse()
		return fmt.Sprintf("refuse%s, fragment %d, slot %d: %v", get, id, slot, why)
	case wire.TypeAccept:
		slot, _ := r.Accept()
		return fmt.Sprintf("accept for slot %d", slot)
	case wire.TypeWithdraw:
		id, e := r.Withdraw()
		return fmt.Sprintf("withdraw #%d of slot %d, fragment %d, credit %d", e.Number, e.SrcSlot, id, e.Tag)
	case wire.TypeCredit:
		c := r.Credit()
		return fmt.Sprintf("credit%s for slot %d: %d bytes", map[uint8]string{wire.FlagRecall: " recalled", wire.FlagReturn: " returned"}[c.Flags], c.Slot, c.Bytes)
	case wire.TypePut:
		id, m := r.Put()
		if id != 0 {
			return fmt.Sprintf("put of slot %d, fragment %d, %d bytes at %d, %d of them ready", m.Asker, id, m.Length, m.Offset, r.PutReady())
		}
		return fmt.Sprintf("put of slot %d, fragment %d, %d bytes at %d, %d bytes here", m.Asker, id, m.Length, m.Offset, len(r.Payload()))
	case wire.TypeGet:
		id, limit, m := r.Get()
		return fmt.Sprintf("get of slot %d, fragment %d, %d bytes at %d, up to byte %d", m.Asker, id, m.Length, m.Offset, limit)
	case wire.TypeTable:
		return describeTable(r.Payload())
	case wire.TypeRelay:
		return describeRelay(r)
	case wire.TypeRelayed:
		id, missed := r.Relayed()
		return fmt.Sprintf("relayed %d: missed %b", id, missed[0])
	}
	return r.Type().String()
}

// describeRelay describes a relay, and its list if the record has it.
func describeRelay(r wire.Record) string {
	id, offset, length := r.Relay()
	s := fmt.Sprintf("relay %d, bytes %d…%d of %d", id, offset, int(offset)+len(r.Payload()), length)
	if offset > 0 {
		return s
	}
	h, b, err := wire.ParseRelayHead(r.Payload())
	if err != nil {
		return s + " …"
	}
	s += fmt.Sprintf(", of slot %d of NIC %d, tag %d:", h.Slot, h.NIC, h.Tag)
	for range h.NICs {
		var n wire.RelayNIC
		var vs []byte
		if n, vs, b, err = wire.ParseRelayNIC(b); err != nil {
			return s + " …"
		}
		for ; len(vs) > 0; vs = vs[wire.RelayReceiverLen:] {
			v := wire.ParseRelayReceiver(vs)
			s += fmt.Sprintf(" #%d to slot %d of NIC %d,", v.Number, v.Slot, n.NIC)
		}
	}
	return s + fmt.Sprintf(" %d bytes", int(length)-(len(r.Payload())-len(b)))
}

func describeTable(b []byte) string {
	switch b[0] {
	case tableClaim, tableEnd, tableAsk:
		n := vni.Name{Index: uint32(b[16])}
		copy(n.App[:], b[20:])
		return fmt.Sprintf("%s %v at slot %d", map[byte]string{tableClaim: "claim", tableEnd: "end of", tableAsk: "ask for"}[b[0]], n, b[2])
	case tableSync:
		return fmt.Sprintf("sync: %d records, %d promised", b[4], b[8])
	case tableLost:
		return fmt.Sprintf("lost: the name of slot %d is that of slot %d of NIC %d", b[2], b[20], b[8])
	case tableAnswer:
		switch b[1] {
		case askGranted:
			return fmt.Sprintf("answer: slot %d has its name", b[2])
		case askForbidden:
			return fmt.Sprintf("answer: slot %d may not have its name", b[2])
		}
		return fmt.Sprintf("answer: the name of slot %d is that of slot %d of NIC %d", b[2], b[20], b[8])
	case tableNode:
		return fmt.Sprintf("node %d", b[24])
	}
	return fmt.Sprintf("table %d", b[0])
}
