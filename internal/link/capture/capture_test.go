package capture_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/capture"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/mem"
)

func wrap(tb testing.TB, d link.Driver, w io.Writer, cfg capture.Config) *capture.Driver {
	tb.Helper()
	c, err := capture.Wrap(d, w, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func TestDriver(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(fmt.Sprintf("inline %v", inline), func(t *testing.T) {
			cfg := capture.Config{Inline: inline}
			linktest.Run(t, linktest.Suite{
				Make: func(tb testing.TB) (a, b link.Driver) {
					s := mem.NewSwitch(mem.Config{MTU: limits.MaxFrame})
					return wrap(tb, s.Port(), io.Discard, cfg), wrap(tb, s.Port(), io.Discard, cfg)
				},
				Claims:    link.Properties{Reliable: true, Ordered: true, Checked: true, Whole: true},
				Bounded:   true,
				Nobody:    mem.Address(77),
				Allocates: true, // writing pcapng allocates; recording has its own test
			})
		})
	}
}

// packet is a packet as a reader of the file sees it.
type packet struct {
	at       time.Time
	from, to string
	payload  []byte
	length   int
	outbound bool
}

func read(t *testing.T, file []byte) (packets []packet, r *pcapgo.NgReader) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, info, options, err := r.ReadPacketDataWithOptions()
		if err == io.EOF {
			return packets, r
		}
		if err != nil {
			t.Fatal(err)
		}
		fits(t, r, info)
		p := gopacket.NewPacket(data, r.LinkType(), gopacket.Default)
		if p.ErrorLayer() != nil {
			t.Fatal(p.ErrorLayer().Error())
		}
		u, ok := p.TransportLayer().(*layers.UDP)
		if !ok {
			t.Fatal("a packet is not UDP")
		}
		if err := u.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
			t.Fatal(err)
		}
		if err, sums := p.VerifyChecksums(); err != nil || len(sums) > 0 {
			t.Errorf("checksums are wrong: %v, %v", err, sums)
		}
		flow := p.NetworkLayer().NetworkFlow()
		packets = append(packets, packet{
			at:       info.Timestamp.UTC(),
			from:     fmt.Sprintf("%s %d", flow.Src(), u.SrcPort),
			to:       fmt.Sprintf("%s %d", flow.Dst(), u.DstPort),
			payload:  u.Payload,
			length:   info.Length,
			outbound: options.Flags != nil && options.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound,
		})
	}
}

// fits fails the test if a packet is longer than the file's snap length. tcpdump refuses such a
// file, and the reader in the tests does not.
func fits(t *testing.T, r *pcapgo.NgReader, info gopacket.CaptureInfo) {
	t.Helper()
	if nic, err := r.Interface(0); err != nil || info.CaptureLength > int(nic.SnapLength) {
		t.Errorf("a packet has %d bytes in the file, which says that none has more than %d; %v", info.CaptureLength, nic.SnapLength, err)
	}
}

func TestTheFileTellsEveryFrameWithTimeAddressesAndDirection(t *testing.T) {
	for _, inline := range []bool{false, true} {
		s := mem.NewSwitch(mem.Config{})
		var file bytes.Buffer
		base := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		a, b := wrap(t, s.Port(), &file, capture.Config{Base: base, Inline: inline, Name: "nic0"}), s.Port()
		var in linktest.Inbox

		a.Poll(1000, &in)
		copy(a.Reserve(b.Addr()), "hello")
		a.Commit(5)
		copy(a.Reserve(b.Addr()), "abandoned")
		a.Flush(2000)
		linktest.Send(t, b, a.Addr(), []byte("and back"))
		a.Poll(3000, &in)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}

		packets, r := read(t, file.Bytes())
		if len(packets) != 2 {
			t.Fatalf("%d packets in the file; want 2", len(packets))
		}
		out, back := packets[0], packets[1]
		if !out.outbound || string(out.payload) != "hello" || !out.at.Equal(base.Add(1000)) ||
			out.from != "fd57::1 1" || out.to != "fd57::2 1" {
			t.Errorf("first packet: %+v", out)
		}
		if back.outbound || string(back.payload) != "and back" || !back.at.Equal(base.Add(3000)) ||
			back.from != "fd57::2 1" || back.to != "fd57::1 1" {
			t.Errorf("second packet: %+v", back)
		}
		nic, err := r.Interface(0)
		if err != nil || nic.Name != "nic0" || nic.Statistics.PacketsReceived != 2 || nic.Statistics.PacketsDropped != 0 {
			t.Errorf("interface %+v, %v; want nic0 with 2 packets", nic, err)
		}
	}
}

func TestTheWrapperKeepsWhatTheDriverBelowCanDoAndAddsNothing(t *testing.T) {
	linktest.Keeps(t, func(d link.Driver) link.Driver { return wrap(t, d, io.Discard, capture.Config{}) })
}

func TestUDPOverIPv4IsCapturedAsSuch(t *testing.T) {
	var file bytes.Buffer
	a, b := wrap(t, listen(t), &file, capture.Config{}), listen(t)
	linktest.Send(t, a, b.Addr(), []byte("x"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	packets, _ := read(t, file.Bytes())
	want := fmt.Sprintf("127.0.0.1 %d", a.Addr().Port())
	if len(packets) != 1 || packets[0].from != want || string(packets[0].payload) != "x" {
		t.Errorf("%+v; want one packet from %s", packets, want)
	}
}

func TestFramesOfEverySizeAreInTheFileAndTheLargestIsCutWithItsLengthNoted(t *testing.T) {
	s := mem.NewSwitch(mem.Config{MTU: limits.MaxFrame})
	var file bytes.Buffer
	a, b := wrap(t, s.Port(), &file, capture.Config{Inline: true}), s.Port()
	sizes := []int{0, 1, 1472, 65487, 65488, limits.MaxFrame}
	for _, n := range sizes {
		linktest.Send(t, a, b.Addr(), bytes.Repeat([]byte{byte(n)}, n))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	packets, _ := read(t, file.Bytes())
	if len(packets) != len(sizes) {
		t.Fatalf("%d packets; want %d", len(packets), len(sizes))
	}
	for i, n := range sizes {
		p := packets[i]
		if len(p.payload) != min(n, 65487) || p.length != n+48 {
			t.Errorf("a frame of %d bytes is in the file with %d, of length %d", n, len(p.payload), p.length)
		}
	}
}

// gate is an io.Writer that waits until it is opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	file bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.file.Write(b)
}

func TestASlowFileCostsFramesInTheFileAndNoneOnTheLink(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	g := &gate{open: make(chan struct{}, 1)}
	g.open <- struct{}{} // for the file's beginning
	a, b := wrap(t, s.Port(), g, capture.Config{Buffer: 512 << 10}), s.Port()
	var in linktest.Inbox
	const n = 1000
	for i := range n {
		linktest.Send(t, a, b.Addr(), make([]byte, 4000))
		linktest.Collect(t, b, &in, i+1)
	}
	missed := a.Missed()
	if missed < n/2 || missed > n-66 {
		t.Errorf("%d of %d frames missed with memory for 66…132", missed, n)
	}
	close(g.open)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	packets, r := read(t, g.file.Bytes())
	nic, _ := r.Interface(0)
	if len(packets)+int(missed) != n || nic.Statistics.PacketsDropped != missed {
		t.Errorf("%d frames in the file, %d missed, %d dropped by the file's own statistics; want %d in all",
			len(packets), missed, nic.Statistics.PacketsDropped, n)
	}
}

func TestAFileBeingWatchedIsSoonUpToDate(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	path := filepath.Join(t.TempDir(), "live.pcapng")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	a, b := wrap(t, s.Port(), f, capture.Config{}), s.Port()
	if _, next := a.Poll(0, &linktest.Inbox{}); next != clock.Never {
		t.Errorf("Poll wants to come again at %d; want never, since the link does not", next)
	}
	for n := range 2 {
		a.Reserve(b.Addr())
		a.Commit(1) // no call follows: the NIC is idle
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if packets, _ := read(t, file); len(packets) == n+1 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("frame %d does not appear in the file", n)
			}
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("writing to the file after Close: %v; want that it is closed", err)
	}
}

var errFull = errors.New("disk full")

// fullDisk accepts a number of bytes and no more.
type fullDisk struct{ room int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.room -= len(b); d.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestAnErrorOfWritingSurfacesAtClose(t *testing.T) {
	for _, inline := range []bool{false, true} {
		s := mem.NewSwitch(mem.Config{})
		a, b := wrap(t, s.Port(), &fullDisk{room: 10000}, capture.Config{Inline: inline}), s.Port()
		var in linktest.Inbox
		for i := range 100 {
			linktest.Send(t, a, b.Addr(), make([]byte, 1000))
			linktest.Collect(t, b, &in, i+1)
		}
		for range 2 {
			if err := a.Close(); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "capture") {
				t.Errorf("inline %v: Close says %v; want %v", inline, err, errFull)
			}
		}
		if a.Missed() == 0 {
			t.Errorf("inline %v: no frame counts as missed", inline)
		}
	}
	if _, err := capture.Wrap(nil, &fullDisk{}, capture.Config{}); !errors.Is(err, errFull) {
		t.Errorf("Wrap of a file that takes nothing: %v; want %v", err, errFull)
	}
}

// A write failure is reported once, and not in the log of a working capture. The link's counters
// include the missing frames.
func TestAFullDiskIsToldApartAndCounted(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	var failed, logged []string
	a, b := wrap(t, s.Port(), &fullDisk{room: 10000}, capture.Config{Inline: true,
		Failed: func(text string) { failed = append(failed, text) }, Log: func(text string) { logged = append(logged, text) }}), s.Port()
	var in linktest.Inbox
	for i := range 100 {
		linktest.Send(t, a, b.Addr(), make([]byte, 1000))
		linktest.Collect(t, b, &in, i+1)
	}
	if len(failed) != 1 || !strings.Contains(failed[0], "no more are written") || len(logged) != 0 {
		t.Errorf("told of the failure: %q; logged: %q", failed, logged)
	}
	var all link.Counters
	if a.Counters(&all); all.CaptureMissed < 90 || all.CaptureMissed != a.Missed() || all.FramesOut != 100 {
		t.Errorf("%+v; %d frames are missing", all, a.Missed())
	}
}

// smallDisk is a file that accepts a number of bytes and no more, unless it is cut.
type smallDisk struct {
	bytes.Buffer
	size int
}

func (d *smallDisk) Write(b []byte) (n int, err error) {
	if room := d.size - d.Len(); len(b) > room {
		b, err = b[:room], errFull
	}
	n, _ = d.Buffer.Write(b)
	return n, err
}

type cutDisk struct{ smallDisk }

func (d *cutDisk) Truncate(n int64) error {
	d.Buffer.Truncate(int(n))
	return nil
}

func TestAFileOnAFullDiskEndsWellAndItsErrorIsToldAtOnce(t *testing.T) {
	for size := 1000; size < 9000; size += 97 {
		// Mostly inline, since a goroutine begins to write after 100 ms.
		inline := size%10 > 0
		disk := &cutDisk{smallDisk{size: size}}
		said := make(chan string, 3)
		s := mem.NewSwitch(mem.Config{})
		a, b := wrap(t, s.Port(), disk, capture.Config{Inline: inline, Log: func(text string) { said <- text }}), s.Port()
		for i := range 10 {
			linktest.Send(t, a, b.Addr(), bytes.Repeat([]byte{byte(i)}, 1000))
		}
		if text := <-said; !strings.HasPrefix(text, errFull.Error()) {
			t.Fatalf("said %q; want %v", text, errFull)
		}
		if err := a.Close(); !errors.Is(err, errFull) {
			t.Fatalf("Close: %v; want %v", err, errFull)
		}
		packets, r := read(t, disk.Bytes())
		for i, p := range packets {
			if len(p.payload) != 1000 || p.payload[0] != byte(i) {
				t.Errorf("packet %d is not frame %d", i, i)
			}
		}
		if want := max(0, (size-200)/1100); len(packets) < want {
			t.Errorf("%d packets are in a file of %d bytes; want %d", len(packets), size, want)
		}
		nic, _ := r.Interface(0)
		missing := uint64(10 - len(packets))
		if a.Missed() != missing {
			t.Errorf("%d packets of 10 are in the file, and %d frames count as missed", len(packets), a.Missed())
		}
		// There may be no room for the counters behind frames that were written before.
		counted, room := nic.Statistics, size-disk.Len()
		if (counted.PacketsDropped != missing || counted.PacketsReceived != 10) && (counted.PacketsReceived != 0 || room >= 52) {
			t.Errorf("%d packets are in the file, which has room for %d bytes and says %+v", len(packets), room, counted)
		}
		if text, want := <-said, fmt.Sprintf("%d frames are in the file; %d are not", len(packets), 10-len(packets)); !strings.HasPrefix(text, want) {
			t.Errorf("said %q; want %q", text, want)
		}
	}
}

func TestNothingIsWrittenBehindABlockOfWhichAPartIsInTheFile(t *testing.T) {
	disk := &smallDisk{size: 3000} // it cannot be cut
	s := mem.NewSwitch(mem.Config{})
	a, b := wrap(t, s.Port(), disk, capture.Config{Inline: true}), s.Port()
	for range 10 {
		linktest.Send(t, a, b.Addr(), make([]byte, 1000))
	}
	disk.size = 1e6
	if err := a.Close(); !errors.Is(err, errFull) || disk.Len() != 3000 {
		t.Errorf("Close: %v; the file has %d bytes; want 3000, and %v", err, disk.Len(), errFull)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	a, b := wrap(t, s.Port(), io.Discard, capture.Config{}), s.Port()
	// Time stands still, and one chunk holds all frames: the writer need not write.
	round := func() {
		if a.Reserve(b.Addr()) != nil {
			a.Commit(100)
		}
		a.Flush(0)
		b.Poll(0, drop{})
	}
	for range 20 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("a captured frame costs the engine %v allocations; want none", n)
	}
}

type drop struct{}

func (drop) Receive(clock.Time, link.Addr, []byte) {}

func (d drop) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(d, now, from, frames, size)
}

// capped captures frames of 1000 bytes, and returns the file and the logged texts.
func capped(t *testing.T, n int, cfg capture.Config) (file []byte, d *capture.Driver, log []string) {
	s := mem.NewSwitch(mem.Config{})
	var b bytes.Buffer
	cfg.Inline, cfg.Log = true, func(text string) { log = append(log, text) }
	a, other := wrap(t, s.Port(), &b, cfg), s.Port()
	var in linktest.Inbox
	for i := range n {
		linktest.Send(t, a, other.Addr(), bytes.Repeat([]byte{byte(i)}, 1000))
		linktest.Collect(t, other, &in, i+1)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), a, log
}

func TestAFullFileEndsWellAndTellsHowManyFramesItLacks(t *testing.T) {
	const limit, frames = 20_000, 100
	file, d, log := capped(t, frames, capture.Config{Limit: limit})
	if len(file) > limit || len(file) < limit-1200 {
		t.Errorf("the file has %d bytes of %d", len(file), limit)
	}
	packets, r := read(t, file)
	for i, p := range packets {
		if len(p.payload) != 1000 || p.payload[0] != byte(i) {
			t.Errorf("packet %d is not frame %d: % x", i, i, p.payload[:min(len(p.payload), 8)])
		}
	}
	nic, err := r.Interface(0)
	if missing := uint64(frames - len(packets)); err != nil || nic.Statistics.PacketsDropped != missing || d.Missed() != missing ||
		nic.Statistics.PacketsReceived != frames {
		t.Errorf("%d frames are in the file, %d are counted as missing; the file says %+v, %v", len(packets), d.Missed(), nic.Statistics, err)
	}
	want := fmt.Sprintf("%d frames are in the file; %d are not", len(packets), frames-len(packets))
	if len(log) != 2 || !strings.Contains(log[0], "20000 bytes") || !strings.Contains(log[1], want) {
		t.Errorf("logged: %q; want the limit, and %q", log, want)
	}
}

func TestALimitThatNoFileKeepsIsRefused(t *testing.T) {
	if _, err := capture.Wrap(mem.NewSwitch(mem.Config{}).Port(), io.Discard, capture.Config{Limit: 100}); err == nil || !strings.Contains(err.Error(), "limit of 100 bytes") {
		t.Errorf("Wrap: %v", err)
	}
}

func TestOfEachFrameTheBeginningIsInTheFileWithItsTrueLength(t *testing.T) {
	file, _, _ := capped(t, 3, capture.Config{Snap: 96})
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		data, info, err := r.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		fits(t, r, info)
		if info.CaptureLength != 96+48 || info.Length != 1000+48 || !bytes.Equal(data[48:], bytes.Repeat([]byte{byte(i)}, 96)) {
			t.Errorf("packet %d: %d bytes of %d", i, info.CaptureLength, info.Length)
		}
		p := gopacket.NewPacket(data, layers.LinkTypeRaw, gopacket.Default)
		if u, ok := p.TransportLayer().(*layers.UDP); !ok || u.Length != 1008 {
			t.Errorf("packet %d is %v; want UDP of 1008 bytes", i, p)
		}
	}
}

// open starts a capture to a file.
func open(path string) (*capture.Driver, error) {
	return capture.Open(mem.NewSwitch(mem.Config{}).Port(), path, func() clock.Time { return 0 }, capture.Config{})
}

func TestAFileThatIsReplacedIsForItsOwnerAloneAlsoWhereItIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.pcapng")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	c, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("the capture: %v, %v; want mode 0600", info, err)
	}
	if text, err := io.ReadAll(reader); err != nil || string(text) != "old" {
		t.Errorf("a reader of the file that was there gets %q, %v", text, err)
	}
}

func TestOfTheCapturesToOneFileOneIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.pcapng")
	for range 50 {
		var made [4]*capture.Driver
		var errs [4]error
		var all sync.WaitGroup
		for i := range made {
			all.Go(func() { made[i], errs[i] = open(path) })
		}
		all.Wait()
		n := 0
		for i, c := range made {
			if c == nil {
				continue
			}
			if n++; c.Close() != nil || errs[i] != nil {
				t.Error(errs[i])
			}
		}
		if n != 1 {
			t.Fatalf("%d of 4 captures are made: %v; want one", n, errs)
		}
	}
	first, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(path); err == nil || !strings.Contains(err.Error(), "another capture writes to "+path) {
		t.Errorf("a second capture to a file: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("the first capture's file: %v, %v", info, err)
	}
}

func TestWhatIsNoFileIsNotReplacedByACapture(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink(file, link), os.WriteFile(file, []byte("old"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, link, os.DevNull} {
		before, _ := os.Lstat(path)
		if _, err := open(path); err == nil || !strings.Contains(err.Error(), path+" is no file") {
			t.Errorf("capture to %s: %v", path, err)
		}
		if after, err := os.Lstat(path); err != nil || before.Mode() != after.Mode() {
			t.Errorf("%s has mode %v, and had %v", path, after.Mode(), before.Mode())
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "old" {
		t.Errorf("the file behind a link says %q, %v", text, err)
	}
}
