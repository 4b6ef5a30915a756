package daemon

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

// connectionBytes is what the daemon needs for the connection of a process, besides its VNI: the
// session, a goroutine whose stack has held a request, and the connection with its buffers.
const connectionBytes = 24 << 10

// idleVNI returns the cost in bytes of the VNI of a process that is attached and does nothing:
// the pages shared with the process, the engine's tables, and its connection. shared is the first
// of these alone.
func idleVNI(g vni.Geometry) (all, shared int64) {
	rw, ro := g.Sizes()
	from, to := g.PoolRange()
	shared = int64(rw + ro - (to - from))
	return shared + nic.ProcessBytes(g) + connectionBytes, shared
}

// memoryMap returns the NIC's memory map: six segments. The engine knows those of its tables
// (QNIX-56).
func (d *Daemon) memoryMap() *ctl.Memory {
	g := d.settings.usual
	rw, ro := g.Sizes()
	m := &ctl.Memory{NIC: uint64(d.id),
		VNIs: ctl.VNIs{Prepared: d.settings.prepared, IdleBytesLimit: limits.IdleVNIBytes, MappedBytes: int64(rw + ro)},
		Parameters: ctl.Parameters{N: g.Commands, M: g.Contexts, K: g.Descriptors, Q: g.PoolPages,
			P: d.settings.config.maxProcesses(),
			D: limits.DriverCommands, R: limits.Peers, T: limits.NamesPerNIC, G: limits.SeatsPerNIC,
			HeadBatch: driver.HeadBatch}}
	m.VNIs.IdleBytes, m.VNIs.IdleSharedBytes = idleVNI(g)
	var engine []nic.Segment
	d.loop.Do(func(clock.Time) { engine = d.engine.MemoryMap() })
	all := append([]nic.Segment{d.vnis.segment(&m.VNIs)}, engine[:2]...)
	all = append(all, programSegment())
	for _, s := range append(all, engine[2:]...) {
		m.Segments = append(m.Segments, segmentOf(s))
	}
	return m
}

func segmentOf(s nic.Segment) ctl.Segment {
	c := ctl.Segment{Name: s.Name}
	for _, p := range s.Parts {
		c.Parts = append(c.Parts, ctl.SegmentPart(p))
		c.Bytes += p.Bytes
		c.InUse += p.InUse
	}
	return c
}

// segment returns the memory of all VNIs: the mapped bytes, and how many of them have pages.
func (v *vnis) segment(count *ctl.VNIs) nic.Segment {
	v.mu.Lock()
	defer v.mu.Unlock()
	waiting := nic.SegmentPart{Name: "idle", Entries: v.prepared, Used: len(v.idle)}
	for _, m := range v.idle {
		waiting.Bytes += int64(m.mapped())
	}
	taken := nic.SegmentPart{Name: "used", Used: len(v.used)}
	for m := range v.used {
		taken.Bytes += int64(m.mapped())
		taken.InUse += inPages(m.rw.mem) + inPages(m.ro.mem)
		if m.onFly {
			count.OnTheFly++
		}
	}
	count.Idle, count.Used = len(v.idle), len(v.used)
	return nic.Segment{Name: nic.SegmentVNIs, Parts: []nic.SegmentPart{waiting, taken}}
}

// inPages counts the bytes of a mapping that have pages.
func inPages(mem []byte) (bytes int64) {
	if len(mem) == 0 {
		return 0
	}
	pages := make([]byte, (len(mem)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)),
		uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		return 0
	}
	for _, p := range pages {
		bytes += int64(p&1) * int64(os.Getpagesize())
	}
	return bytes
}

// programSegment returns the segment of the daemon's own code. The control program is a part of
// it.
func programSegment() nic.Segment {
	size, inUse := programText()
	return nic.Segment{Name: nic.SegmentProgram, Parts: []nic.SegmentPart{{Name: "code", Bytes: size, InUse: inUse}}}
}

// programText returns the size of the mapping of the running program's code, and how much of it
// is in memory. Both are 0 if the kernel does not tell.
func programText() (size, inUse int64) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	program, _ := os.Readlink("/proc/self/exe")
	inText := false
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		var from, to, kib int64
		if n, _ := fmt.Sscanf(line, "%x-%x", &from, &to); n == 2 {
			if inText = strings.Contains(line, " r-xp ") && strings.HasSuffix(line, program); inText {
				size += to - from
			}
		} else if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kib); inText && n == 1 {
			inUse += kib << 10
		}
	}
	return size, inUse
}
