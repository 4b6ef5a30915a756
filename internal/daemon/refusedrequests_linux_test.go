package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// raw connects to a daemon, and returns a function that sends a request and returns the reply. It
// sends requests that no client of ours sends.
func raw(t *testing.T, socket string) func(request string) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	return func(request string) string {
		t.Helper()
		reply := make([]byte, ctl.MaxMessage)
		if _, err := unix.Write(fd, []byte(request)); err != nil {
			t.Fatal(err)
		}
		n, err := unix.Read(fd, reply)
		if err != nil || n == 0 {
			t.Fatalf("%s: %q, %v", request, reply[:n], err)
		}
		return string(reply[:n])
	}
}

// held describes what the daemon holds for processes.
func (d *Daemon) held() string {
	var sessions, regions, bytes, segments int
	d.loop.Do(func(clock.Time) {
		for _, s := range d.sessions {
			sessions++
			regions += len(s.regions)
			bytes += int(s.bytes)
		}
		segments = len(d.segments.all)
	})
	d.vnis.mu.Lock()
	defer d.vnis.mu.Unlock()
	return fmt.Sprintf("%d processes with %d regions of %d bytes, %d segments and %d VNIs", sessions, regions, bytes, segments, len(d.vnis.used))
}

// allDescriptors counts the descriptors of this process.
func allDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestARefusedRequestSaysWhyAndLeavesNothing(t *testing.T) {
	b := newBench(t)
	ask := raw(t, b.d.Socket())
	ask(`{"version":1,"op":"nodes"}`)
	open := allDescriptors(t)
	request := func(op, rest string) string { return fmt.Sprintf(`{"version":1,"op":%q%s}`, op, rest) }
	try := func(op, rest, code, text string) {
		t.Helper()
		before := b.d.held()
		if reply := ask(request(op, rest)); !strings.Contains(reply, `"code":"`+code+`"`) || !strings.Contains(reply, text) {
			t.Errorf("%s%s: %s; expected %s with %q", op, rest, reply, code, text)
		}
		if after := b.d.held(); after != before {
			t.Errorf("behind %s%s the daemon has %s; before it had %s", op, rest, after, before)
		}
	}
	for op, rest := range map[string]string{
		"alloc": `,"alloc":{"bytes":1}`, "part": `,"part":{"region":1,"bytes":1,"offset":0}`, "free": `,"free":{"region":1}`,
		"share": `,"segment":{"id":1,"bytes":8}`, "unshare": `,"segment":{"id":1}`, "leave": "",
	} {
		try(op, rest, "bad-request", `before \"attach\"`)
	}
	try("attach", `,"attach":{"name":"c"}`, "bad-request", "")
	try("attach", fmt.Sprintf(`,"attach":{"name":"c/0","job_key":%q}`, "AAAA"), "bad-request", "a job key of 3 bytes")
	try("attach", `,"attach":{"name":"c/0","geometry":{"commands":0,"contexts":5000,"descriptors":0,"pool_pages":0}}`, "bad-request", "5000 contexts")
	try("attach", `,"attach":{"name":"a/0"}`, "name-taken", "a/0")
	try("nodes", `,"nic":"99"`, "no-nic", "is not known to NIC")
	try("nodes", `,"link":"other"`, "no-link", "other")
	try("segment", `,"segment_tool":{"do":"read","id":9}`, "no-segment", "")
	try("job", `,"job":{"what":"kill","id":"job-00000001"}`, "no-job", "")
	try("job", `,"job":{"what":"machine-get","machine":{"name":"m"}}`, "no-machine", "")

	eventually(t, "no descriptor more than before", func() bool { return allDescriptors(t) <= open })

	if reply := ask(request("attach", `,"attach":{"name":"c/0"}`)); strings.Contains(reply, "error") {
		t.Fatal(reply)
	}
	try("attach", `,"attach":{"name":"c/1"}`, "bad-request", "this connection is c/0 already")
	open = allDescriptors(t)
	quota := b.d.settings.config.RegionBytes
	for _, n := range []int64{0, -1, limits.MaxRegion + 1} {
		try("alloc", fmt.Sprintf(`,"alloc":{"bytes":%d}`, n), "bad-request", fmt.Sprintf("region of %d bytes; expected 1 to", n))
	}
	try("alloc", fmt.Sprintf(`,"alloc":{"bytes":%d}`, quota+1), "no-memory", "its quota is")
	for _, n := range []int64{0, -1, limits.SegmentBytes + 1} {
		try("share", fmt.Sprintf(`,"segment":{"id":1,"bytes":%d}`, n), "bad-request", "expected 1 to")
	}
	for _, part := range []string{`"offset":-1,"bytes":1`, `"offset":0,"bytes":0`, `"offset":0,"bytes":-1`} {
		try("part", `,"part":{"region":1,`+part+`}`, "bad-request", "expected 1 or more, from 0 or more")
	}
	try("part", `,"part":{"region":9,"offset":0,"bytes":1}`, "no-region", "")
	try("free", `,"free":{"region":9}`, "no-region", "")
	try("unshare", `,"segment":{"id":1}`, "bad-request", "does not share segment 1")
	if reply := ask(request("share", `,"segment":{"id":1,"bytes":64}`)); strings.Contains(reply, "error") {
		t.Fatal(reply)
	}
	try("share", `,"segment":{"id":1,"bytes":72}`, "bad-request", "has 64 bytes, not 72")
	if reply := ask(request("unshare", `,"segment":{"id":1}`)); strings.Contains(reply, "error") {
		t.Error(reply)
	}
	try("unshare", `,"segment":{"id":1}`, "bad-request", "does not share segment 1")
	eventually(t, "no descriptor more than before", func() bool { return allDescriptors(t) <= open })
}

// A process that is thrown out has lost its NIC. Its connection may still hold requests.
func TestNothingIsGivenToAProcessThatIsThrownOut(t *testing.T) {
	b := newBench(t)
	p := b.parts[0]
	id, _, _, err := p.Alloc(t.Context(), 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	given, err := unix.MemfdCreate("given", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(given)
	if err := unix.Ftruncate(given, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(given), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	s := b.session(0)
	s.expelled.Store(true)
	for what, ask := range map[string]func() error{
		"alloc":    func() error { _, _, _, err := p.Alloc(t.Context(), 4096, false); return err },
		"register": func() error { _, _, err := p.Register(t.Context(), given, 0, 4096, false); return err },
		"part":     func() error { _, _, err := p.Part(t.Context(), id, 0, 1, false); return err },
		"share":    func() error { _, _, err := p.Share(t.Context(), 1, 8); return err },
	} {
		before := b.d.held()
		if err := ask(); !errors.Is(err, ctl.ErrNICGone) {
			t.Errorf("%s: %v; expected %v", what, err, ctl.ErrNICGone)
		}
		if after := b.d.held(); after != before {
			t.Errorf("behind %s the daemon has %s; before it had %s", what, after, before)
		}
	}
	if err := p.Free(t.Context(), id); err != nil { // the client unmaps its memory
		t.Error(err)
	}
	b.d.loop.Do(func(clock.Time) {
		if s.bytes != 4096 || len(s.regions) != 1 {
			t.Errorf("a free has taken a region from a process that is thrown out: %d bytes, %d regions", s.bytes, len(s.regions))
		}
	})
	s.expelled.Store(false)
}

func TestARegionCountsAgainstItsQuotaUntilItIsFree(t *testing.T) {
	b := newBenchOf(t, Config{RegionBytes: 3 * limits.PageBytes})
	p, s := b.parts[0], b.session(0)
	counted := func(what string, want int64) {
		t.Helper()
		b.d.loop.Do(func(clock.Time) {
			if s.bytes != want {
				t.Errorf("%s: %d bytes are counted; expected %d", what, s.bytes, want)
			}
		})
	}
	one, _, _, err := p.Alloc(t.Context(), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	counted("one byte", limits.PageBytes)
	two, _, _, err := p.Alloc(t.Context(), 2*limits.PageBytes, false)
	if err != nil {
		t.Fatalf("the last bytes of the quota: %v", err)
	}
	counted("all", 3*limits.PageBytes)
	if _, _, _, err := p.Alloc(t.Context(), 1, false); !errors.Is(err, ctl.ErrNoMemory) {
		t.Errorf("one byte more: %v", err)
	}
	if _, _, err := p.Share(t.Context(), 1, 1); !errors.Is(err, ctl.ErrNoMemory) {
		t.Errorf("a segment of one byte more: %v", err)
	}
	part, _, err := p.Part(t.Context(), two, 8, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Free(t.Context(), part), p.Free(t.Context(), one)); err != nil {
		t.Error(err)
	}
	counted("a region and a part less", 2*limits.PageBytes)
	_, leave, err := p.Share(t.Context(), 1, limits.PageBytes-7)
	if err != nil {
		t.Fatalf("a segment as large as the quota that is left: %v", err)
	}
	counted("a segment", 3*limits.PageBytes)
	if err := errors.Join(leave(t.Context()), p.Free(t.Context(), two)); err != nil {
		t.Error(err)
	}
	counted("nothing", 0)
	given, err := unix.MemfdCreate("given", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(given)
	err = unix.Ftruncate(given, limits.PageBytes)
	if _, seal := unix.FcntlInt(uintptr(given), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); errors.Join(err, seal) != nil {
		t.Fatal(err, seal)
	}
	own, _, err := p.Register(t.Context(), given, 5, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	counted("one byte of the process's own memory", limits.PageBytes)
	if err := p.Free(t.Context(), own); err != nil {
		t.Error(err)
	}
	counted("nothing again", 0)
}
