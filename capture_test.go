package weft_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/weftnet/weft"
)

// captured returns the packets of a capture, by direction. The file must be complete, and end
// with its counts.
func captured(t *testing.T, path string) (in, out [][]byte, counts pcapgo.NgInterfaceStatistics) {
	t.Helper()
	return capturedWith(t, path, func([]byte, time.Time) {})
}

// capturedWith is like captured, and also passes each packet and its time to the function packet.
func capturedWith(t *testing.T, path string, packet func(data []byte, at time.Time)) (in, out [][]byte, counts pcapgo.NgInterfaceStatistics) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, info, options, err := r.ReadPacketDataWithOptions()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(info.Timestamp); age < 0 || age > time.Hour {
			t.Errorf("a packet is of %v", info.Timestamp)
		}
		packet(data, info.Timestamp)
		if options.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound {
			out = append(out, data)
		} else {
			in = append(in, data)
		}
	}
	nic, err := r.Interface(0)
	if err != nil {
		t.Fatal(err)
	}
	return in, out, nic.Statistics
}

func with(packets [][]byte, what []byte) (n int) {
	for _, p := range packets {
		if bytes.Contains(p, what) {
			n++
		}
	}
	return n
}

func TestACaptureHasTheFramesOfANICOnEachLinkAndLeavesItItsShortWays(t *testing.T) {
	for _, l := range []struct {
		name   string
		config weft.Config
	}{
		{"udp", weft.Config{Plain: true}},
		{"shm", weft.Config{Link: weft.SharedMemory("")}},
		{"switch", weft.Config{Link: weft.NewSwitch().Link()}},
	} {
		t.Run(l.name, func(t *testing.T) {
			if l.name == "shm" && runtime.GOOS != "linux" {
				t.Skip("shm is a link of Linux")
			}
			files := []string{filepath.Join(t.TempDir(), "a.pcapng"), filepath.Join(t.TempDir(), "b.pcapng")}
			var said []string
			var mu sync.Mutex
			open := func(i int, nodes ...weft.Node) *weft.Process {
				c := l.config
				c.Name, c.Nodes, c.Capture = weft.Name{App: "p", Index: uint32(i)}, nodes, &weft.Capture{File: files[i]}
				c.Log = weft.SaidLog(func(text string) {
					mu.Lock()
					defer mu.Unlock()
					said = append(said, text)
				})
				p, err := weft.Open(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
				return p
			}
			a := open(0)
			b := open(1, weft.Node{ID: a.NIC().ID(), Addr: a.NIC().Addr()})
			if _, err := a.WaitName(t.Context(), b.Name()); err != nil {
				t.Fatal(err)
			}
			question, answer := bytes.Repeat([]byte("question"), 8), bytes.Repeat([]byte("answers!"), 8)
			buf, exchanges := make([]byte, 64), 0
			met := func() uint64 { return a.NIC().Counters()["nic_met"] + b.NIC().Counters()["nic_met"] }
			for exchanges < 100 || l.name == "shm" && met() < 50 {
				for _, m := range []struct {
					from, to *weft.Process
					what     []byte
				}{{a, b, question}, {b, a, answer}} {
					if err := m.from.Send(t.Context(), m.to.Name(), 1, m.what); err != nil {
						t.Fatal(err)
					}
					if _, err := m.to.Recv(t.Context(), m.from.Name(), 1, buf); err != nil || !bytes.Equal(buf, m.what) {
						t.Fatalf("%q, %v", buf, err)
					}
				}
				exchanges++
			}
			long := bytes.Repeat([]byte("a long message. "), 10_000)
			go a.Send(t.Context(), b.Name(), 2, long)
			if m, err := b.Recv(t.Context(), a.Name(), 2, make([]byte, len(long))); err != nil || m.Len != len(long) {
				t.Fatal(m, err)
			}
			for _, p := range []*weft.Process{a, b} {
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for i, own := range [][]byte{question, answer} {
				in, out, counts := captured(t, files[i])
				other := [][]byte{answer, question}[i]
				if with(out, own) < exchanges || with(in, other) < exchanges || with(in, own)+with(out, other) > 0 {
					t.Errorf("file %d has %d packets in and %d out, with %d and %d of the %d messages", i, len(in), len(out), with(in, other), with(out, own), exchanges)
				}
				if counts.PacketsDropped != 0 || counts.PacketsReceived != uint64(len(in)+len(out)) {
					t.Errorf("the file counts %+v; it has %d packets", counts, len(in)+len(out))
				}
				mu.Lock()
				if text := strings.Join(said, "\n"); !strings.Contains(text, "capture to "+files[i]) || !strings.Contains(text, "frames are in the file; 0 are not") {
					t.Errorf("said %q", text)
				}
				mu.Unlock()
			}
			in, _, _ := captured(t, files[1])
			n := 0
			for _, p := range in {
				n += bytes.Count(p, []byte("a long message. "))
			}
			if n < 9_000 { // all but the bytes at the ends of frames
				t.Errorf("%d bytes of a long message are in the file of its receiver; want %d", n*16, len(long))
			}
		})
	}
}

func TestAMessageAfterAPauseIsInTheCaptureWithTheTimeAtWhichItLeft(t *testing.T) {
	sw, file := weft.NewSwitch(), filepath.Join(t.TempDir(), "a.pcapng")
	open := func(c weft.Config) *weft.Process {
		c.Link = sw.Link()
		p, err := weft.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	a := open(weft.Config{Name: weft.Name{App: "a"}, Capture: &weft.Capture{File: file}})
	b := open(weft.Config{Name: weft.Name{App: "b"}, Nodes: []weft.Node{{ID: a.NIC().ID(), Addr: a.NIC().Addr()}}})
	if _, err := a.WaitName(t.Context(), b.Name()); err != nil {
		t.Fatal(err)
	}
	send := func(what string) {
		t.Helper()
		if err := a.Send(t.Context(), b.Name(), 1, []byte(what)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Recv(t.Context(), a.Name(), 1, make([]byte, len(what))); err != nil {
			t.Fatal(err)
		}
	}
	send("before the pause")
	time.Sleep(700 * time.Millisecond) // the NIC is idle for at least 400 ms of these
	began := time.Now()
	send("after the pause")
	ended := time.Now()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	found := false
	capturedWith(t, file, func(data []byte, at time.Time) {
		if !bytes.Contains(data, []byte("after the pause")) {
			return
		}
		found = true
		const drift = 200 * time.Millisecond // of the wall clock since the file was created
		if at.Before(began.Add(-drift)) || at.After(ended.Add(drift)) {
			t.Errorf("the message is of %v; it was sent from %v to %v", at, began, ended)
		}
	})
	if !found {
		t.Error("the message is not in the file")
	}
}

func TestACaptureThatCannotBeMadeIsRefusedByItsPath(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		capture weft.Capture
		want    string
	}{
		{weft.Capture{File: filepath.Join(dir, "no", "file")}, "weft: Config.Capture: capture: open " + filepath.Join(dir, "no", "file") + ": no such file"},
		{weft.Capture{}, "weft: Config.Capture: capture: open : "},
		{weft.Capture{File: filepath.Join(dir, "a"), Limit: 100}, "capture to " + filepath.Join(dir, "a") + ": a file of 100 bytes; expected 0 or 4096 and more"},
		{weft.Capture{File: filepath.Join(dir, "a"), Limit: -1}, "a file of -1 bytes"},
		{weft.Capture{File: filepath.Join(dir, "a"), Snap: -1}, "-1 bytes of each frame; expected 0 to 65536"},
	} {
		n, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.NewSwitch().Link(), Capture: &c.capture})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.capture, err, c.want)
		}
		if err == nil {
			n.Close()
		}
	}
}
