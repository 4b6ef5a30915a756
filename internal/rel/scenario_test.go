package rel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// TestScenarios runs the scripts in testdata/scenarios. Each line of a script's output is a
// frame or an event:
//
//	time since the last command, sender → receiver, what; ✗ marks a frame that the network lost
//
// Sequence numbers are shown from 0, whatever the session's first one is. `go test -run
// Scenarios -rewrite` writes the output anew.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{first: map[[2]int][wire.Spaces]wire.Seq{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.command(d)
		})
		if s.w != nil {
			s.w.t = t
			s.w.check()
		}
	})
}

type scenario struct {
	t     *testing.T
	w     *world
	out   strings.Builder
	start clock.Time
	// By sender and receiver: of the session that the last Hello announced.
	first map[[2]int][wire.Spaces]wire.Seq
	// Descriptions of frames to lose, each once; with "*" at the end, all frames that begin so.
	drops []string
	kept  []kept // every frame that was sent
	frags map[string]*Fragment
	count int
	mute  bool

	longest int // frames of more bytes are lost; 0: none are
}

type kept struct {
	from, to *node
	frame    []byte
	what     string
}

func (s *scenario) printf(format string, args ...any) {
	if s.mute {
		return
	}
	fmt.Fprintf(&s.out, "%9.3f ms  ", float64(s.w.now.Sub(s.start))/1e6)
	fmt.Fprintf(&s.out, format+"\n", args...)
}

// command runs one command of a script.
func (s *scenario) command(d *datadriven.TestData) string {
	s.out.Reset()
	if s.w != nil {
		s.start = s.w.now
		s.w.t = s.t
	}
	switch d.Cmd {
	case "world":
		s.world(d)
	case "open":
		s.pair(d, func(a, b *node) { a.open(b) })
	case "connect":
		s.pair(d, func(a, b *node) { a.open(b).Connect(s.w.now); a.wake() })
	case "send":
		s.send(d)
	case "datagram":
		s.datagram(d)
	case "post":
		s.post(d)
	case "limit":
		f := s.frags[d.CmdArgs[2].Key]
		f.Limit = uint64(s.number(d, 3))
		s.pair(d, func(a, b *node) { s.pump(a, a.m.Endpoint(b.cfg.NIC), f) })
	case "withdraw":
		f := s.frags[d.CmdArgs[2].Key]
		f.Err = errors.New("withdrawn")
		s.pair(d, func(a, b *node) { a.m.Endpoint(b.cfg.NIC).Withdraw(s.w.now, f); a.wake() })
	case "watch":
		s.pair(d, func(a, b *node) { a.m.Endpoint(b.cfg.NIC).Watch(1); a.wake() })
	case "check":
		s.pair(d, func(a, b *node) { a.m.Endpoint(b.cfg.NIC).Check(s.w.now); a.wake() })
	case "result":
		s.pair(d, func(a, b *node) {
			status, text := a.m.Endpoint(b.cfg.NIC).CheckResult()
			fmt.Fprintln(&s.out, status, text)
		})
	case "lose":
		s.drops = append(s.drops, strings.Split(strings.TrimSpace(d.Input), "\n")...)
	case "lose-nothing":
		s.drops, s.longest = nil, 0
	case "narrow": // BYTES: longer frames are lost
		s.longest = s.number(d, 0)
	case "lengths":
		s.pair(d, func(a, b *node) {
			size, goal, _ := a.m.Endpoint(b.cfg.NIC).FrameLengths()
			fmt.Fprintf(&s.out, "frames of %d bytes, of %d\n", size, goal)
		})
	case "run":
		s.run(d)
	case "restart":
		s.node(d, 0).restart()
	case "kill":
		s.node(d, 0).dead = true
	case "forget":
		s.pair(d, func(a, b *node) { a.m.Forget(s.w.now, a.m.Endpoint(b.cfg.NIC)); a.wake() })
	case "close":
		n := s.node(d, 0)
		n.m.Close(s.w.now, n)
	case "sleep":
		n := s.node(d, 0)
		span, err := time.ParseDuration(d.CmdArgs[1].Key)
		if err != nil {
			s.t.Fatal(err)
		}
		n.asleep = s.w.now.Add(span)
	case "inject":
		s.inject(d)
	case "stats":
		s.stats(d)
	default:
		d.Fatalf(s.t, "unknown command %q", d.Cmd)
	}
	return s.out.String()
}

func (s *scenario) number(d *datadriven.TestData, i int) int {
	n, err := strconv.Atoi(d.CmdArgs[i].Key)
	if err != nil {
		d.Fatalf(s.t, "argument %d: %v", i, err)
	}
	return n
}

func (s *scenario) node(d *datadriven.TestData, i int) *node { return s.w.nodes[s.number(d, i)-1] }

func (s *scenario) pair(d *datadriven.TestData, do func(a, b *node)) {
	do(s.node(d, 0), s.node(d, 1))
}

// world: makes nodes 1 … n. Arguments: nodes, mtu, reliable, probing (of paths), sealed (links;
// fast changes keys often).
func (s *scenario) world(d *datadriven.TestData) {
	nodes, mtu := 2, 1472
	d.MaybeScanArgs(s.t, "nodes", &nodes)
	d.MaybeScanArgs(s.t, "mtu", &mtu)
	s.w = newWorld(s.t, 3, weather{})
	s.frags = map[string]*Fragment{}
	for i := range nodes {
		n := s.w.add(i+1, func(c *Config) {
			c.MTU = mtu
			c.Reliable = d.HasArg("reliable")
			c.Narrow = d.HasArg("probing")
			c.Tagged = !c.Reliable
			switch {
			case d.HasArg("fast"):
				sealAs(i+1, fast)(c)
			case d.HasArg("sealed"):
				sealAs(i+1, nil)(c)
			}
		})
		s.listen(n)
	}
	s.w.filter = s.frame
}

// listen prints the calls to n's owner.
func (s *scenario) listen(n *node) {
	id := n.cfg.NIC
	n.onUp = func(e *Endpoint) { s.printf("%d: up with %d, incarnation %d", id, e.NIC(), e.Incarnation()) }
	n.onDown = func(e *Endpoint, why error) { s.printf("%d: down with %d: %v", id, e.NIC(), why) }
	n.onFree = func(f *Fragment) { s.printf("%d: fragment %d released, error %v", id, f.ID, f.Err) }
	n.onRoom = func(e *Endpoint) {
		for _, f := range s.frags {
			s.pump(n, e, f)
		}
	}
	n.onGram = func(e *Endpoint, service uint8, payload []byte) {
		s.printf("%d: datagram of %d bytes to service %d", id, len(payload), service)
	}
	n.deliver = func(e *Endpoint, r wire.Record) {
		if r.Type() == wire.TypeChunk {
			fid, off := r.Chunk()
			s.printf("%d: delivered bytes %d…%d of fragment %d", id, off, int(off)+len(r.Payload()), fid)
			return
		}
		s.printf("%d: delivered %q", id, r.Payload())
	}
}

// frame sees every frame, and decides whether it arrives.
func (s *scenario) frame(from, to *node, frame []byte) bool {
	what := s.describe(from, to, frame)
	s.kept = append(s.kept, kept{from, to, append([]byte(nil), frame...), what})
	arrives, mark := true, ""
	if to.dead {
		mark = " ✗"
	}
	for i, drop := range s.drops {
		if prefix, all := strings.CutSuffix(drop, "*"); all && strings.HasPrefix(what, prefix) {
			arrives, mark = false, " ✗"
			break
		} else if drop == what {
			s.drops = append(s.drops[:i:i], s.drops[i+1:]...)
			arrives, mark = false, " ✗"
			break
		}
	}
	if s.longest > 0 && len(frame) > s.longest {
		arrives, mark = false, " ✗"
	}
	s.printf("%s%s", what, mark)
	return arrives
}

// describe returns the contents of a frame as text.
func (s *scenario) describe(from, to *node, frame []byte) string {
	o, body, err := wire.ParseOuter(frame)
	if err != nil {
		return err.Error()
	}
	if o.Flags&wire.FlagTagged != 0 {
		body = body[:len(body)-wire.TagLen]
	}
	a, b := int(from.cfg.NIC), int(to.cfg.NIC)
	head := fmt.Sprintf("%d→%d %v", a, b, o.Kind)
	if o.Flags&wire.FlagSealed != 0 {
		if o.Kind.OfHandshake() {
			return head + describeHandshake(o, body[:len(body)-2*wire.MACLen])
		}
		if head, body = head+phaseOf(o), s.unsealed(from, to, o, frame); body == nil {
			return head
		}
	}
	mine, theirs := s.first[[2]int{a, b}], s.first[[2]int{b, a}]
	switch o.Kind {
	case wire.KindHello, wire.KindHelloAck:
		h, _ := wire.ParseHello(body)
		s.first[[2]int{a, b}] = [wire.Spaces]wire.Seq{h.FirstCommand, h.FirstData}
		if o.Kind == wire.KindHello {
			return fmt.Sprintf("%s %d, incarnation %d", head, o.Counter, h.Incarnation)
		}
		return fmt.Sprintf("%s to hello %d, incarnation %d", head, h.EchoCounter, h.Incarnation)
	case wire.KindData:
		h, records, err := wire.ParseInner(body)
		if err != nil {
			return head + " " + err.Error()
		}
		text := fmt.Sprintf("%s %v %d:", head, h.Space, h.Seq.Sub(mine[h.Space]))
		for len(records) > 0 {
			var r wire.Record
			r, records = wire.NextRecord(records)
			text += fmt.Sprintf(" %v(%d)", r.Type(), len(r.Payload()))
		}
		return text + s.acks(h.Flags, h.Ack, theirs)
	case wire.KindAck:
		var k wire.Ack
		k.Parse(body)
		text := head + s.acks(k.Flags, k.Ack, theirs) + fmt.Sprintf(", %v", k.Reason)
		for i := range k.Words {
			for j := range 64 * k.Words[i] {
				if k.Selective[i][j/64]>>(j%64)&1 != 0 {
					text += fmt.Sprintf(", and %v %d", wire.Space(i), k.Ack[i].Add(2+j).Sub(theirs[i]))
				}
			}
		}
		return text
	case wire.KindPart:
		p, payload, _ := wire.ParsePart(body)
		return fmt.Sprintf("%s of %v %d, bytes %d…%d of %d", head, p.Space, p.Seq.Sub(mine[p.Space]), p.Offset, int(p.Offset)+len(payload), p.Length)
	case wire.KindDatagram:
		d, payload, _ := wire.ParseDatagram(body)
		return fmt.Sprintf("%s %d, bytes %d…%d of %d, to service %d", head, d.ID, d.Offset, int(d.Offset)+len(payload), d.Length, d.Service)
	case wire.KindProbe, wire.KindProbeReply:
		p, _ := wire.ParseProbe(body)
		return fmt.Sprintf("%s of %d bytes", head, p.Size)
	case wire.KindRekey:
		r, _ := wire.ParseRekey(body)
		return fmt.Sprintf("%s %d, message %d", head, r.Number, r.Message)
	}
	return head
}

// describeHandshake returns the readable contents of a handshake frame as text.
func describeHandshake(o wire.Outer, body []byte) string {
	h, err := wire.ParseHandshake(body)
	switch {
	case o.Kind == wire.KindCookie:
		return ""
	case err != nil:
		return " " + err.Error()
	}
	name := map[uint8]string{wire.PatternNone: "refusal", wire.PatternXX: "XX", wire.PatternIK: "IK"}[h.Pattern]
	return fmt.Sprintf(" %d, %s %d", o.Counter, name, h.Message)
}

// phaseOf marks frames of odd phases.
func phaseOf(o wire.Outer) string {
	if o.Flags&wire.FlagPhase != 0 {
		return "′"
	}
	return ""
}

// unsealed returns the body of a frame that its sender has just sealed; nil if the sender has no
// such session.
func (s *scenario) unsealed(from, to *node, o wire.Outer, frame []byte) []byte {
	e := from.m.Endpoint(to.cfg.NIC)
	if e == nil || e.live == nil || e.live.sealed == nil || e.live.packets.index != o.Index {
		return nil
	}
	l, a, b := e.live, int(from.cfg.NIC), int(to.cfg.NIC)
	s.first[[2]int{a, b}] = l.first
	s.first[[2]int{b, a}] = [wire.Spaces]wire.Seq{l.peer.FirstCommand, l.peer.FirstData}
	f := append([]byte(nil), frame...)
	clear := clearLen(o)
	if !l.sealed.out.Key.Open(f[clear:len(f)-wire.TagLen], f, clear, o.Counter) {
		return nil
	}
	return f[wire.OuterLen : len(f)-wire.TagLen]
}

// acks returns the acknowledgements in a frame as text, if it acknowledges anything.
func (s *scenario) acks(flags uint8, ack, first [wire.Spaces]wire.Seq) string {
	text := ""
	for i := range wire.Space(wire.Spaces) {
		if n := ack[i].Sub(first[i]); flags&(wire.AckCommand<<i) != 0 && n >= 0 {
			text += fmt.Sprintf(", ack %v %d", i, n)
		}
	}
	return text
}

// send: FROM TO TEXT…, one short message per text. Arguments after them: data sends in the data
// space; control as control.
func (s *scenario) send(d *datadriven.TestData) {
	a, b := s.node(d, 0), s.node(d, 1)
	e := a.m.Endpoint(b.cfg.NIC)
	for _, arg := range d.CmdArgs[2:] {
		switch {
		case arg.Key == "data" || arg.Key == "control":
		case d.HasArg("control"):
			r := e.Control(s.w.now, wire.FragLen+len(arg.Key))
			if r == nil {
				fmt.Fprintf(&s.out, "no room for %q\n", arg.Key)
				continue
			}
			wire.PutFrag(r, &wire.Envelope{}, len(arg.Key))
			copy(r[wire.FragLen:], arg.Key)
			a.wake()
		case d.HasArg("data"):
			if !a.frag(e, wire.Data, arg.Key) {
				fmt.Fprintf(&s.out, "no room for %q\n", arg.Key)
			}
		default:
			if !a.frag(e, wire.Command, arg.Key) {
				fmt.Fprintf(&s.out, "no room for %q\n", arg.Key)
			}
		}
	}
}

// datagram: FROM TO SERVICE BYTES.
func (s *scenario) datagram(d *datadriven.TestData) {
	s.pair(d, func(a, b *node) {
		if a.m.Endpoint(b.cfg.NIC).Datagram(uint8(s.number(d, 2)), s.number(d, 3)) == nil {
			fmt.Fprintln(&s.out, "it cannot leave")
		}
		a.wake()
	})
}

// post: FROM TO NAME BYTES [LIMIT], a fragment.
func (s *scenario) post(d *datadriven.TestData) {
	s.count++
	f := chunks(wire.FragmentID(s.count), s.number(d, 3))
	if len(d.CmdArgs) > 4 {
		f.Limit = uint64(s.number(d, 4))
	}
	s.frags[d.CmdArgs[2].Key] = f
	s.pair(d, func(a, b *node) { s.pump(a, a.m.Endpoint(b.cfg.NIC), f) })
}

func (s *scenario) pump(n *node, e *Endpoint, f *Fragment) {
	for e.Post(s.w.now, f, 1) > 0 {
	}
	n.wake()
}

// run: TIME [quiet] lets time pass.
func (s *scenario) run(d *datadriven.TestData) {
	span, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	s.mute = d.HasArg("quiet")
	s.w.run(span)
	s.mute = false
}

// inject: the last frame sent that fits the input arrives once more. Arguments change it first:
// flip damages a byte, elsewhere=N makes it arrive from node N's address.
func (s *scenario) inject(d *datadriven.TestData) {
	want := strings.TrimSpace(d.Input)
	for i := len(s.kept) - 1; i >= 0; i-- {
		k := s.kept[i]
		if !strings.HasPrefix(k.what, want) {
			continue
		}
		frame, from := append([]byte(nil), k.frame...), k.from.addr
		if d.HasArg("flip") {
			frame[len(frame)-wire.TagLen-1] ^= 0x40
		}
		if d.HasArg("elsewhere") {
			from = address(99)
		}
		k.to.m.Receive(s.w.now, from, frame)
		k.to.wake()
		return
	}
	d.Fatalf(s.t, "no frame was like %q", want)
}

// stats: N NAME… prints counters of node N.
func (s *scenario) stats(d *datadriven.TestData) {
	all := strings.Replace(fmt.Sprintf("%+v", *s.node(d, 0).m.Stats()), "{", " ", 1)
	for _, arg := range d.CmdArgs[1:] {
		_, rest, ok := strings.Cut(all, " "+arg.Key+":")
		if !ok {
			d.Fatalf(s.t, "no counter %q", arg.Key)
		}
		fmt.Fprintf(&s.out, "%s %s\n", arg.Key, strings.TrimRight(strings.Fields(rest)[0], "}"))
	}
}
