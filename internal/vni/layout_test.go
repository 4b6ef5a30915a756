package vni

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
)

// layoutGolden is the layout of the default geometry, attached, colour 3. Programs of different
// builds share segments, so a change here needs another version number.
const layoutGolden = `
rw commands        192
rw sends          4288
rw receives      12480
rw regions       20672
rw pool         122880
rw status      1171648
rw sleeping    1171712
rw waiting     1171776
rw send bells  1171840
rw recv bells  1172096
rw bytes       1175552
ro head           1216
ro listening      1280
ro published      1344
ro events         1408
ro send done      5504
ro recv done     13696
ro bytes         24576
`

func TestLayoutIsTheOneThatWasPublished(t *testing.T) {
	g := DefaultGeometry(false)
	g.Colour = 3
	l := g.layout()
	var b strings.Builder
	b.WriteByte('\n')
	for _, x := range []struct {
		name string
		at   int
	}{
		{"rw commands", l.commands}, {"rw sends", l.sends}, {"rw receives", l.receives}, {"rw regions", l.regions}, {"rw pool", l.pool},
		{"rw status", l.status}, {"rw sleeping", l.sleeping}, {"rw waiting", l.waiting}, {"rw send bells", l.sendBells}, {"rw recv bells", l.receiveBells},
		{"rw bytes", l.rwBytes}, {"ro head", l.head}, {"ro listening", l.listening}, {"ro published", l.published},
		{"ro events", l.events}, {"ro send done", l.sendDone}, {"ro recv done", l.receiveDone}, {"ro bytes", l.roBytes},
	} {
		fmt.Fprintf(&b, "%-13s %8d\n", x.name, x.at)
	}
	if b.String() != layoutGolden {
		t.Errorf("layout is\n%s\nwant\n%s", b.String(), layoutGolden)
	}
}

func TestRecordsHaveTheirSizesAndOffsets(t *testing.T) {
	var (
		c commandEntry
		s sendRecord
		r receiveRecord
		d descriptorRecord
		f completionRecord
		e eventRecord
		m memoryInfo
	)
	for _, x := range []struct {
		what      string
		got, want uintptr
	}{
		{"command entry", unsafe.Sizeof(c), commandBytes}, {"command entry, rest", unsafe.Offsetof(c.rest), 8},
		{"send context", unsafe.Sizeof(s), contextBytes}, {"send context, gen", unsafe.Offsetof(s.gen), 28},
		{"send context, tag", unsafe.Offsetof(s.tag), 32}, {"send context, size", unsafe.Offsetof(s.size), 60},
		{"send context, second line", unsafe.Offsetof(s.nic), lineBytes}, {"send context, remote NIC", unsafe.Offsetof(s.remoteNIC), 80},
		{"receive context", unsafe.Sizeof(r), contextBytes}, {"receive context, tag", unsafe.Offsetof(r.tag), 32},
		{"receive context, second line", unsafe.Offsetof(r.nic), lineBytes},
		{"descriptor", unsafe.Sizeof(d), descriptorBytes},
		{"completion", unsafe.Sizeof(f), completionBytes}, {"completion, taken", unsafe.Offsetof(f.taken), 52},
		{"completion, consumed", unsafe.Offsetof(f.consumed), 56}, {"completion, second line", unsafe.Offsetof(f.app), lineBytes},
		{"event", unsafe.Sizeof(e), eventBytes}, {"event, application", unsafe.Offsetof(e.app), 40},
		{"memory info, offsets", unsafe.Offsetof(m.offsets), 48}, {"memory info, identity", unsafe.Offsetof(m.nic), 168},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d bytes, want %d", x.what, x.got, x.want)
		}
	}
	if n := unsafe.Sizeof(m); n > infoBytes {
		t.Errorf("memory info has %d bytes, its room %d", n, infoBytes)
	}
}

// QNIX-5: components are consecutive, in this order, the command queue first.
func TestComponentsFollowOneAnotherWithoutOverlap(t *testing.T) {
	for colour := range Colours {
		for _, g := range []Geometry{DefaultGeometry(false), DefaultGeometry(true), {Commands: 16, Contexts: 1, Descriptors: 1, PoolPages: 1},
			{Commands: 48, Contexts: 17, Descriptors: 100}} {
			g.Colour = colour
			l := g.layout()
			ends := []int{l.commands, l.commands + 16*g.Commands, l.sends, l.sends + 128*g.Contexts, l.receives, l.receives + 128*g.Contexts,
				l.regions, l.regions + 2*g.Contexts*l.regionBytes, l.pool, l.pool + g.PoolPages*limits.PageBytes, l.status, l.status + 12,
				l.sleeping, l.sleeping + 4, l.waiting, l.waiting + 4, l.sendBells, l.sendBells + 4*g.Contexts, l.receiveBells, l.receiveBells + 4*g.Contexts, l.rwBytes}
			for i := 1; i < len(ends); i++ {
				if ends[i] < ends[i-1] {
					t.Fatalf("%+v: component %d ends at %d, the next starts at %d", g, (i-1)/2, ends[i-1], ends[i])
				}
			}
			if l.commands%lineBytes != 0 || l.pool%limits.PageBytes != 0 || l.status%lineBytes != 0 || l.head%lineBytes != 0 {
				t.Errorf("%+v: misaligned component: %+v", g, l)
			}
		}
	}
}

func TestColoursPutQueueHeadsOnDifferentLines(t *testing.T) {
	seen := map[int]bool{}
	g := DefaultGeometry(false)
	rw, ro := g.Sizes()
	for g.Colour = range Colours {
		l := g.layout()
		seen[l.commands%limits.PageBytes] = true
		if l.rwBytes != rw || l.roBytes != ro {
			t.Errorf("colour %d changes the sizes to %d and %d from %d and %d", g.Colour, l.rwBytes, l.roBytes, rw, ro)
		}
	}
	if len(seen) != Colours {
		t.Errorf("%d colours give %d places", Colours, len(seen))
	}
}

func TestGeometryOutsideItsBoundsIsRefused(t *testing.T) {
	good := Geometry{Commands: 32, Contexts: 16, Descriptors: 4, PoolPages: 2}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, g := range map[string]Geometry{
		"N < 2M (QNIX-6)":       {Commands: 24, Contexts: 16, Descriptors: 4},
		"N = 8 (QNIX-A4)":       {Commands: 8, Contexts: 4, Descriptors: 4},
		"N not a multiple of 8": {Commands: 36, Contexts: 16, Descriptors: 4},
		"N huge":                {Commands: 1 << 20, Contexts: 16, Descriptors: 4},
		"M = 0":                 {Commands: 16, Descriptors: 4},
		"K = 0":                 {Commands: 32, Contexts: 16},
		"Q < 0":                 {Commands: 32, Contexts: 16, Descriptors: 4, PoolPages: -1},
		"colour too high":       {Commands: 32, Contexts: 16, Descriptors: 4, Colour: Colours},
	} {
		if g.Validate() == nil {
			t.Errorf("%s: accepted", what)
		}
		if _, err := NewSegment(AlignedBytes(1<<21), AlignedBytes(1<<20), g); err == nil {
			t.Errorf("%s: NewSegment accepted it", what)
		}
	}
}

func TestSegmentThatDoesNotFitIsRefused(t *testing.T) {
	g := Geometry{Commands: 16, Contexts: 4, Descriptors: 4, PoolPages: 1, Colour: 2}
	n, m := g.Sizes()
	rw, ro := AlignedBytes(n+8), AlignedBytes(m+8)
	if _, err := NewSegment(rw[1:], ro, g); err == nil {
		t.Error("misaligned rw accepted")
	}
	if _, err := NewSegment(rw, ro[4:], g); err == nil {
		t.Error("misaligned ro accepted")
	}
	if _, err := NewSegment(rw[:n-8], ro, g); err == nil {
		t.Error("short rw accepted")
	}
	if _, err := NewSegment(nil, nil, g); err == nil {
		t.Error("empty areas accepted")
	}
	if _, err := OpenSegment(rw, ro); err == nil {
		t.Error("unformatted segment opened")
	}
	s, err := NewSegment(rw, ro, g)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := OpenSegment(rw, ro); err != nil || p.Geometry() != g {
		t.Errorf("reopened: %+v, %v", p, err)
	}
	if _, err := OpenSegment(rw[:n-8], ro); err == nil {
		t.Error("short rw opened")
	}
	s.info.offsets[3]++
	if _, err := OpenSegment(rw, ro); err == nil {
		t.Error("segment with foreign offsets opened")
	}
	s.info.offsets[3]--
	s.info.version++
	if _, err := OpenSegment(rw, ro); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("other version: %v", err)
	}
}
