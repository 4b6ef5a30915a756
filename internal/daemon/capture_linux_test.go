package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/link/capture"
)

// captured reads a capture. It returns the number of its packets, the number of those that hold
// some bytes, and the number that the capture counts as left out.
func captured(t *testing.T, path string, some []byte) (packets, hold int, dropped uint64) {
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
		data, _, err := r.ReadPacketData()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if packets++; bytes.Contains(data, some) {
			hold++
		}
	}
	nic, err := r.Interface(0)
	if err != nil || nic.Name != "udp" {
		t.Fatalf("interface %+v, %v; want udp", nic, err)
	}
	return packets, hold, nic.Statistics.PacketsDropped
}

func TestADaemonCapturesItsFramesUpToALimit(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "whole"), filepath.Join(dir, "short")}
	var ended lineWriter // the log's lines of captures
	t.Run("running", func(t *testing.T) {
		c := configs(t, 2)
		c[0].Plain, c[1].Plain = true, true // the test looks for a message in the frames
		c[0].Capture = files[0]
		c[1].Capture, c[1].CaptureLimit, c[1].CaptureSnap = files[1], 8192, 100
		log := &logWriter{t: t}
		for i := range c {
			d, err := daemon.New(c[i], io.MultiWriter(log, &ended))
			if err != nil {
				t.Fatal(err)
			}
			serve(t, log, d)
		}
		a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
		wait(t, a, "b/0")
		wait(t, b, "a/0")
		exchange(t, a, b, 1)
		exchange(t, b, a, 2)
	})
	packets, hold, dropped := captured(t, files[0], payload(2, 100))
	if hold < 2 || dropped != 0 || packets < 100 {
		t.Errorf("%d packets are in the file, %d of them with a message that went both ways; %d were left out", packets, hold, dropped)
	}
	packets, _, dropped = captured(t, files[1], nil)
	if info, err := os.Stat(files[1]); err != nil || info.Size() > 8192 || dropped == 0 || packets == 0 {
		t.Errorf("the short file: %v, %v; %d packets, and %d left out", info, err, packets, dropped)
	}
	text := ended.text
	for _, want := range []string{
		"capture to " + files[0] + ": ", "frames are in the file; 0 are not",
		"capture to " + files[1] + ": the file has reached its limit of 8192 bytes: it has ",
		fmt.Sprintf("capture to %s: %d frames are in the file; %d are not", files[1], packets, dropped),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
}

func TestACaptureOfADaemonWithSecretsCanBeDecrypted(t *testing.T) {
	dir := t.TempDir()
	sealed, plain := filepath.Join(dir, "sealed"), filepath.Join(dir, "plain")
	t.Run("running", func(t *testing.T) {
		c := configs(t, 2)
		c[0].Capture, c[0].CaptureSecrets = sealed, true
		log := &logWriter{t: t}
		for i := range c {
			d, err := daemon.New(c[i], log)
			if err != nil {
				t.Fatal(err)
			}
			serve(t, log, d)
		}
		a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
		wait(t, a, "b/0")
		wait(t, b, "a/0")
		exchange(t, a, b, 1)
		exchange(t, b, a, 2)
	})
	if _, hold, _ := captured(t, sealed, payload(2, 100)); hold > 0 {
		t.Errorf("%d packets show a message before they are decrypted", hold)
	}
	in, err := os.Open(sealed)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if n, err := capture.Decrypt(in, out); err != nil || n.NoKey > 0 || n.Opened == 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	if _, hold, _ := captured(t, plain, payload(2, 100)); hold < 2 {
		t.Errorf("%d packets show a message that went both ways", hold)
	}
}

// lineWriter keeps the lines about captures.
type lineWriter struct {
	mu   sync.Mutex
	text string
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte("capture to ")) {
		w.text += string(b)
	}
	return len(b), nil
}

func TestACaptureThatADaemonCannotMakeIsRefusedByItsPath(t *testing.T) {
	c := configs(t, 1)[0]
	c.Capture = filepath.Join(t.TempDir(), "no", "file")
	if d, err := daemon.New(c, io.Discard); err == nil || !strings.Contains(err.Error(), "capture: open "+c.Capture+": no such file") {
		t.Errorf("New: %v, %v", d, err)
	}
	for _, bad := range []struct {
		c    daemon.Config
		want string
	}{
		{daemon.Config{Capture: "x", CaptureLimit: 7}, "capture: a file of 7 bytes; expected 0 or 4096 and more"},
		{daemon.Config{Capture: "x", CaptureSnap: 1 << 20}, "capture: 1048576 bytes of each frame; expected 0 to 65536"},
		{daemon.Config{CaptureLimit: 1 << 20}, "capture: no file is named; expected one beside capture_limit, capture_snap and capture_secrets"},
		{daemon.Config{CaptureSecrets: true}, "capture: no file is named; expected one beside capture_limit, capture_snap and capture_secrets"},
	} {
		if err := bad.c.Check(); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("Check: %v; want %q", err, bad.want)
		}
	}
}
