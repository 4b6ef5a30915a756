package nbd

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
)

var modelSeed = flag.Uint64("model.seed", 0, "the seed of the comparison of a volume with its model; 0: one of its own")

// Limits of the comparison. The volume is so small that concurrent requests overlap.
const (
	modelPages = 24
	modelBytes = modelPages * 4096
	modelConns = 4
	// Requests of a connection in a round. All are sent before the first must be answered.
	modelEach = 12
)

// Clients that read a volume by NBD must see the result of some serial order of their requests on
// a slice of bytes. In this order, a request that ended before another was sent comes before that
// one, and each page is written and read as a whole. A request that was only partly sent has no
// effect.
func TestAVolumeIsItsModelWhateverIsUnderWayAtOnce(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for _, cfg := range []netmem.VolumeConfig{{}, {ReadAhead: -1, ClientConfig: netmem.ClientConfig{PageBytes: 8192, Compress: true}}} {
		t.Logf("-model.seed=%d, pages of %d bytes", seed, max(4096, cfg.PageBytes))
		m := newModelled(t, cfg, seed)
		for round := range rounds {
			m.round()
			if t.Failed() {
				t.Fatalf("in round %d", round)
			}
		}
	}
}

// modelled is a volume that is served, and its expected contents.
type modelled struct {
	t     *testing.T
	rng   *rand.Rand
	s     *Server
	l     net.Listener
	page  int
	clock atomic.Int64
	bytes []byte // the contents between rounds
}

func newModelled(t *testing.T, cfg netmem.VolumeConfig, seed uint64) *modelled {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(app string, nodes ...weft.Node) *weft.Process {
		p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: app}, Link: weft.UDP("127.0.0.1:0"), Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	a := open("a")
	at := weft.Node{ID: a.NIC().ID(), Addr: a.NIC().Addr()}
	for _, p := range []*weft.Process{a, open("b", at)} {
		s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		cfg.Servers = append(cfg.Servers, netmem.ServerRef{Name: p.Name()})
	}
	cfg.Copies, cfg.Bytes = 2, modelBytes
	v, err := netmem.Open(ctx, open("c", at), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	s, err := New(Config{Device: v, Block: v.PageBytes()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "nbd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &modelled{t: t, rng: rand.New(rand.NewPCG(seed, 1)), s: s, l: l, page: v.PageBytes(), bytes: make([]byte, modelBytes)}
}

// round sends requests on several connections concurrently. It checks the data that they read,
// and the contents at the end.
func (m *modelled) round() {
	values := m.values()
	var all []*asked
	var wg sync.WaitGroup
	for range modelConns {
		structured, torn, inOrder := m.rng.IntN(2) == 0, m.rng.IntN(4) == 0, m.rng.IntN(3) == 0
		first := m.rng.IntN(modelPages)
		var l []*asked
		for i := range modelEach {
			a := m.draw(structured)
			if inOrder { // causes readahead of pages
				a.request = request{command: cmdRead, cookie: a.cookie, offset: uint64(i+first) % modelPages * 4096, length: 4096}
				a.want = 0
			}
			if a.command == cmdWrite {
				a.value, values = values[0], values[1:]
			}
			l = append(l, a)
		}
		all = append(all, l...)
		cut := m.rng.IntN(4096)
		wg.Go(func() { m.connection(structured, torn, inOrder, cut, l) })
	}
	wg.Wait()
	last := &asked{request: request{command: cmdRead, length: modelBytes, cookie: 1}}
	m.connection(false, false, false, 0, []*asked{last})
	all = append(all, last)
	if m.t.Failed() {
		return
	}
	for _, a := range all {
		if a.command == cmdRead && a.ended > 0 && a.want == 0 {
			m.check(a, all)
		}
	}
	m.bytes = last.got
	m.holes()
}

// values returns the values that no byte has now.
func (m *modelled) values() (l []byte) {
	var used [256]bool
	for _, b := range m.bytes {
		used[b] = true
	}
	for v := 1; v < len(used); v++ {
		if !used[v] {
			l = append(l, byte(v))
		}
	}
	return l
}

// draw draws a request.
func (m *modelled) draw(structured bool) *asked {
	a := &asked{structured: structured}
	a.cookie = m.rng.Uint64()
	a.command = []command{cmdRead, cmdRead, cmdRead, cmdWrite, cmdWrite, cmdTrim, cmdWriteZeroes, cmdFlush}[m.rng.IntN(8)]
	if a.command == cmdFlush {
		return a
	}
	from, n := m.rng.IntN(modelBytes), 1+m.rng.IntN([]int{100, 5000, 20000}[m.rng.IntN(3)])
	if m.rng.IntN(3) == 0 {
		from, n = from&^4095, (n+4095)&^4095
	}
	a.offset, a.length = uint64(from), uint32(n)
	if a.command == cmdWriteZeroes {
		a.flags = []uint16{0, cmdNoHole, cmdFastZero}[m.rng.IntN(3)]
	}
	if a.command != cmdRead {
		a.flags |= uint16(m.rng.IntN(2)) * cmdFUA
	}
	if from+n > modelBytes {
		if a.want = errInvalid; a.command == cmdWrite || a.command == cmdWriteZeroes {
			a.want = errNoSpace
		}
	}
	return a
}

// check checks each byte that was read, and compares it with the other bytes of the same page
// that the same requests wrote: all must come from one request.
func (m *modelled) check(r *asked, all []*asked) {
	// The values that were read in the current page, by the set of possible values.
	seen := make(map[string]byte)
	for i, got := range r.got {
		at := int(r.offset) + i
		if at%m.page == 0 {
			clear(seen)
		}
		first, may, of := true, false, make([]byte, 0, len(all))
		for k, w := range all {
			if !w.writes(at) || w.begun == 0 || w.begun > r.ended {
				continue
			}
			of = append(of, byte(k))
			first = first && (w.ended == 0 || w.ended > r.begun)
			may = may || w.value == got && !slices.ContainsFunc(all, func(o *asked) bool {
				return o.writes(at) && w.ended > 0 && w.ended < o.begun && o.ended > 0 && o.ended < r.begun
			})
		}
		if !may && !(first && m.bytes[at] == got) {
			m.t.Errorf("%v: byte %d is %d, before the round it was %d", r, at, got, m.bytes[at])
			for _, k := range of {
				m.t.Logf("it is written by %v", all[k])
			}
			return
		}
		of = append(of, m.bytes[at])
		if other, ok := seen[string(of)]; ok && other != got {
			m.t.Errorf("%v: in one page byte %d is %d, and others that the same requests write are %d", r, at, got, other)
			return
		}
		seen[string(of)] = got
	}
}

// holes trims some pages while nothing else is in flight, and checks the block status.
func (m *modelled) holes() {
	from := m.rng.IntN(modelPages/2) &^ 1
	n := 2 + m.rng.IntN(modelPages/4)&^1
	v := m.s.cfg.Device.(*netmem.Volume)
	if err := v.Discard(context.Background(), int64(from)*4096, int64(n)*4096); err != nil {
		m.t.Error(err)
	}
	clear(m.bytes[from*4096 : (from+n)*4096])
	j := &job{n: &conn{s: m.s}}
	b, err := j.blockStatus(0, modelBytes)
	if err != nil {
		m.t.Error(err)
		return
	}
	at := 0
	for b = b[4:]; len(b) > 0; b = b[8:] {
		length, state := int(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
		if state != 0 && slices.ContainsFunc(m.bytes[at:at+length], func(b byte) bool { return b != 0 }) {
			m.t.Errorf("%d bytes at %d are a hole, and not all zeros", length, at)
		}
		if trimmed := max(at, from*4096) < min(at+length, (from+n)*4096); trimmed && state == 0 {
			m.t.Errorf("%d bytes at %d take room, though pages %d to %d were trimmed", length, at, from, from+n)
		}
		at += length
	}
	if at != modelBytes {
		m.t.Errorf("block status says of %d bytes, want %d", at, modelBytes)
	}
}
