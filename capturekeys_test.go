package weft_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/link/capture"
)

// exchanged returns the capture files and the logs of a sealed pair that has sent 20 messages
// each way.
func exchanged(t *testing.T, secrets bool) (files []string, question, answer []byte, said string) {
	t.Helper()
	files = []string{filepath.Join(t.TempDir(), "a.pcapng"), filepath.Join(t.TempDir(), "b.pcapng")}
	var mu sync.Mutex
	var lines []string
	open := func(i int, nodes ...weft.Node) *weft.Process {
		p, err := weft.Open(t.Context(), weft.Config{
			Name: weft.Name{App: "p", Index: uint32(i)}, Nodes: nodes, Capture: &weft.Capture{File: files[i], Secrets: secrets},
			Log: weft.SaidLog(func(text string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, text)
			}),
		})
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
	question, answer = bytes.Repeat([]byte("question"), 8), bytes.Repeat([]byte("answers!"), 8)
	buf := make([]byte, 64)
	for range 20 {
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
	mu.Lock()
	defer mu.Unlock()
	return files, question, answer, strings.Join(lines, "\n")
}

func decrypted(path, to string) (capture.Decrypted, error) {
	in, err := os.Open(path)
	if err != nil {
		return capture.Decrypted{}, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return capture.Decrypted{}, err
	}
	defer out.Close()
	return capture.Decrypt(in, out)
}

func TestACaptureWithSecretsCanBeDecryptedAndShowsEachMessage(t *testing.T) {
	files, question, answer, said := exchanged(t, true)
	for i, own := range [][]byte{question, answer} {
		other := [][]byte{answer, question}[i]
		in, out, _ := captured(t, files[i])
		if with(in, other)+with(out, own) > 0 {
			t.Errorf("file %d shows messages before it is decrypted", i)
		}
		if info, err := os.Stat(files[i]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file with keys has mode %v, %v", info.Mode(), err)
		}
		plain := filepath.Join(t.TempDir(), "plain.pcapng")
		n, err := decrypted(files[i], plain)
		if err != nil {
			t.Fatal(err)
		}
		if n.Keys < 2 || n.Opened < 40 || n.Handshake < 2 || n.NoKey+n.Cut+n.Foreign+n.BadKeys+n.Unsealed > 0 || n.Torn ||
			n.Packets != uint64(len(in)+len(out)) || n.Packets != n.Opened+n.Handshake {
			t.Errorf("file %d: %+v of %d packets", i, n, len(in)+len(out))
		}
		in, out, counts := captured(t, plain)
		if with(in, other) < 20 || with(out, own) < 20 {
			t.Errorf("file %d shows %d and %d messages of 20 when it is decrypted", i, with(in, other), with(out, own))
		}
		if counts.PacketsReceived != uint64(len(in)+len(out)) {
			t.Errorf("the copy counts %d packets and has %d", counts.PacketsReceived, len(in)+len(out))
		}
		pieces := 0
		for _, p := range append(in, out...) {
			pieces += bytes.Count(p, []byte("a long message. "))
		}
		if pieces < 9_000 { // all but the bytes at the ends of frames
			t.Errorf("%d bytes of a long message are in copy %d", pieces*16, i)
		}
		if text := "capture to " + files[i] + ": the file holds keys"; strings.Count(said, text) != 1 {
			t.Errorf("said %q; want once %q", said, text)
		}
		if file, err := os.ReadFile(plain); err != nil || bytes.Contains(file, []byte("WEFT_KEY")) {
			t.Errorf("the copy holds keys; %v", err)
		}
	}
}

func TestACaptureWithoutSecretsHoldsNoKeysAndShowsNoMessage(t *testing.T) {
	files, question, answer, said := exchanged(t, false)
	for i := range files {
		in, out, _ := captured(t, files[i])
		if len(in) < 20 || len(out) < 20 {
			t.Errorf("file %d has %d packets in and %d out", i, len(in), len(out))
		}
		for _, what := range [][]byte{question, answer, []byte("a long message. ")} {
			if with(in, what)+with(out, what) > 0 {
				t.Errorf("file %d shows %q", i, what)
			}
		}
		file, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(file); at += int(binary.LittleEndian.Uint32(file[at+4:])) {
			if binary.LittleEndian.Uint32(file[at:]) == 10 {
				t.Errorf("file %d has a secrets block at byte %d", i, at)
			}
		}
		if _, err := decrypted(files[i], filepath.Join(t.TempDir(), "plain")); err == nil || !strings.Contains(err.Error(), "holds no keys") {
			t.Errorf("Decrypt: %v", err)
		}
	}
	if strings.Contains(said, "holds keys") {
		t.Errorf("said %q", said)
	}
}
