package capture_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/capture"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/wire"
)

const testIndex = 0x1f3a0007

// sealer makes sealed frames of one direction.
type sealer struct {
	seal.Outgoing
	counter uint64
}

func newSealer(suite seal.Suite) *sealer {
	s := &sealer{}
	s.Start(0, seal.Pace{}, suite, seal.Secret{1, 2, 3})
	return s
}

// frame seals a body. Its first inClear bytes stay in the clear.
func (s *sealer) frame(body string, inClear int) []byte {
	s.counter++
	o := wire.Outer{Kind: wire.KindData, Flags: wire.FlagSealed, Index: testIndex, Counter: s.counter}
	if s.Odd {
		o.Flags |= wire.FlagPhase
	}
	if inClear > 0 {
		o.Flags |= wire.FlagClear
	}
	b := make([]byte, wire.OuterLen+len(body)+wire.TagLen)
	o.Put(b)
	n := wire.OuterLen + copy(b[wire.OuterLen:], body)
	return b[:s.Key.Seal(b, wire.OuterLen+inClear, n, nil, s.counter)]
}

func (s *sealer) flip() { s.Flip(0, s.counter+1) }

// incoming returns the key as the receiver logs it, from a frame on.
func (s *sealer) incoming(first uint64) seal.KeyLog {
	k := s.Log(testIndex)
	k.Outbound, k.First = false, first
	return k
}

// recorded captures the frames that do sends and receives on one end of a link.
func recorded(t testing.TB, a, b link.Driver, cfg capture.Config, do func(c *capture.Driver, send, receive func([]byte))) []byte {
	t.Helper()
	var file bytes.Buffer
	c, err := capture.Wrap(a, &file, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var in linktest.Inbox
	do(c, func(f []byte) {
		copy(c.Reserve(b.Addr()), f)
		c.Commit(len(f))
		c.Flush(0)
	}, func(f []byte) {
		copy(b.Reserve(a.Addr()), f)
		b.Commit(len(f))
		b.Flush(0)
		for n, end := len(in.Frames), time.Now().Add(time.Minute); len(in.Frames) == n; c.Poll(0, &in) {
			if time.Now().After(end) {
				t.Fatal("a frame does not come")
			}
		}
	})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func pair() (a, b link.Driver) {
	s := mem.NewSwitch(mem.Config{})
	return s.Port(), s.Port()
}

func decrypt(t testing.TB, file []byte) (capture.Decrypted, []byte) {
	t.Helper()
	var out bytes.Buffer
	n, err := capture.Decrypt(bytes.NewReader(file), &out)
	if err != nil {
		t.Fatal(err)
	}
	return n, out.Bytes()
}

// comments returns the comments of the packets in a file.
func comments(t *testing.T, file []byte) (l []string) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, _, options, err := r.ReadPacketDataWithOptions()
		if err == io.EOF {
			return l
		}
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, strings.Join(options.Comments, "|"))
	}
}

// kinds returns the types of the blocks in a file.
func kinds(file []byte) (l []uint32) {
	for len(file) > 0 {
		l = append(l, binary.LittleEndian.Uint32(file))
		file = file[binary.LittleEndian.Uint32(file[4:]):]
	}
	return l
}

func TestDecryptOpensTheFramesOfEachPhaseBothWays(t *testing.T) {
	for _, suite := range []seal.Suite{seal.AES, seal.ChaCha} {
		for _, l := range []string{"IPv6", "IPv4"} {
			t.Run(fmt.Sprint(suite, " ", l), func(t *testing.T) {
				a, b := pair()
				if l == "IPv4" {
					a, b = listen(t), listen(t)
				}
				var want []string
				file := recorded(t, a, b, capture.Config{Inline: true, Secrets: true}, func(c *capture.Driver, send, receive func([]byte)) {
					out, in := newSealer(suite), newSealer(suite)
					in.flip() // no key and counter occur in both directions
					keys := c.Keys()
					for phase := range 6 {
						keys(out.Log(testIndex))
						var late []byte
						for i := range 3 {
							body := fmt.Sprintf("phase %d out %d", phase, i)
							if i == 1 {
								body = strings.Repeat("h", wire.ClearLen-wire.OuterLen) + body
								send(out.frame(body, wire.ClearLen-wire.OuterLen))
							} else {
								send(out.frame(body, 0))
							}
							want = append(want, body)
							body = fmt.Sprintf("phase %d in %d", phase, i)
							if f := in.frame(body, 0); i == 0 {
								late = f // the next one overtakes it
							} else {
								receive(f)
								want = append(want, body)
							}
						}
						receive(late)
						want = append(want, fmt.Sprintf("phase %d in 0", phase))
						// The NIC looks at the frames after they are recorded.
						keys(in.incoming(in.counter - 1))
						out.flip()
						in.flip()
					}
				})
				n, plain := decrypt(t, file)
				if n.Opened != 36 || n.Packets != 36 || n.Keys != 12 || n.NoKey > 0 {
					t.Errorf("%+v; want 36 frames opened by 12 keys", n)
				}
				packets, _ := read(t, plain) // with valid checksums
				for i, p := range packets {
					if body := p.payload[wire.OuterLen : len(p.payload)-wire.TagLen]; string(body) != want[i] {
						t.Errorf("frame %d has %q; want %q", i, body, want[i])
					}
				}
				for i, text := range comments(t, plain) {
					if !strings.Contains(text, fmt.Sprintf("sealed by %v in phase", suite)) {
						t.Errorf("packet %d has the comment %q", i, text)
					}
				}
				before, _ := read(t, file)
				for i, p := range packets {
					was := before[i]
					if !bytes.Equal(p.payload[:wire.OuterLen], was.payload[:wire.OuterLen]) || p.length != was.length || p.outbound != was.outbound ||
						p.from != was.from || p.to != was.to || !p.at.Equal(was.at) {
						t.Errorf("packet %d was %+v and is %+v", i, was, p)
					}
				}
				if m, _ := capture.Decrypt(bytes.NewReader(plain), io.Discard); m.Keys > 0 {
					t.Errorf("the copy holds %d keys", m.Keys)
				}
			})
		}
	}
}

func TestDecryptCountsWhatItCannotOpenAndLeavesItAsItIs(t *testing.T) {
	a, b := pair()
	file := recorded(t, a, b, capture.Config{Inline: true, Secrets: true, Snap: 300}, func(c *capture.Driver, send, receive func([]byte)) {
		out := newSealer(seal.AES)
		c.Keys()(out.Log(testIndex))
		send(out.frame("opens", 0))
		damaged := out.frame("damaged", 0)
		damaged[20] ^= 1
		send(damaged)
		receive(out.frame("the other way", 0))
		send(out.frame(strings.Repeat("cut", 200), 0))
		out.flip()
		send(out.frame("its key is not in the file", 0))
		hello := make([]byte, 200)
		wire.Outer{Kind: wire.KindHello, Flags: wire.FlagSealed, Counter: 1}.Put(hello)
		send(hello)
		plain := make([]byte, 60)
		wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged, Index: testIndex, Counter: 9}.Put(plain)
		send(plain)
		short := make([]byte, 20)
		wire.Outer{Kind: wire.KindData, Flags: wire.FlagSealed, Index: testIndex, Counter: 99}.Put(short)
		send(short)
		send([]byte("no frame of Weft, but long enough for one"))
	})
	n, plain := decrypt(t, file)
	if want := (capture.Decrypted{Packets: 9, Opened: 1, NoKey: 4, Cut: 1, Handshake: 1, Unsealed: 1, Foreign: 1, Keys: 1}); n != want {
		t.Errorf("%+v; want %+v", n, want)
	}
	before, _ := read(t, file)
	after, _ := read(t, plain)
	for i := range after {
		if i > 0 && !bytes.Equal(before[i].payload, after[i].payload) {
			t.Errorf("packet %d has changed", i)
		}
	}
	for i, text := range comments(t, plain) {
		if (text != "") != (i == 0) {
			t.Errorf("packet %d has the comment %q", i, text)
		}
	}
}

func TestAKeyIsInTheFileBeforeTheFramesThatLeaveWithIt(t *testing.T) {
	for _, inline := range []bool{false, true} {
		a, b := pair()
		file := recorded(t, a, b, capture.Config{Inline: inline, Secrets: true}, func(c *capture.Driver, send, _ func([]byte)) {
			out := newSealer(seal.AES)
			for range 3 {
				c.Keys()(out.Log(testIndex))
				send(out.frame("x", 0))
				out.flip()
			}
		})
		keys, frames := 0, 0
		for at := 0; at < len(file); at += int(binary.LittleEndian.Uint32(file[at+4:])) {
			switch binary.LittleEndian.Uint32(file[at:]) {
			case 10:
				if kind := binary.LittleEndian.Uint32(file[at+8:]); kind != 0x57464b4c {
					t.Errorf("a secrets block of type %#x", kind)
				}
				text := file[at+16 : at+16+int(binary.LittleEndian.Uint32(file[at+12:]))]
				keys += strings.Count(string(text), "WEFT_KEY out 1f3a0007 AES-128-GCM ")
			case 6:
				if frames++; frames > keys {
					t.Errorf("inline %v: frame %d stands before key %d", inline, frames, frames)
				}
			}
		}
		if keys != 3 || frames != 3 {
			t.Errorf("inline %v: %d keys and %d frames; want 3", inline, keys, frames)
		}
	}
}

func TestACaptureWithoutSecretsTakesNoKeys(t *testing.T) {
	a, b := pair()
	file := recorded(t, a, b, capture.Config{}, func(c *capture.Driver, send, _ func([]byte)) {
		if c.Keys() != nil {
			t.Error("it asks for keys")
		}
		send([]byte("x"))
	})
	if l := fmt.Sprint(kinds(file)); l != fmt.Sprint([]uint32{0x0a0d0d0a, 1, 6, 5}) {
		t.Errorf("the file has blocks %v", l)
	}
}

func TestKeysThatHaveNoRoomAreCountedAndNeverHoldTheNICUp(t *testing.T) {
	var said []string
	a, _ := pair()
	file := recorded(t, a, a, capture.Config{Inline: true, Secrets: true, Limit: limits.LeastCapture, Log: func(text string) { said = append(said, text) }},
		func(c *capture.Driver, _, _ func([]byte)) {
			out := newSealer(seal.ChaCha)
			for range 100 {
				c.Keys()(out.Log(testIndex))
				c.Flush(0)
				out.flip()
			}
		})
	if len(file) > limits.LeastCapture {
		t.Errorf("the file has %d bytes; its limit is %d", len(file), limits.LeastCapture)
	}
	n, _ := decrypt(t, file)
	if text, want := strings.Join(said, "\n"), fmt.Sprintf("%d keys are not in the file", 100-n.Keys); n.Keys < 10 || !strings.Contains(text, want) {
		t.Errorf("%d keys are in the file, which says %q; want %q", n.Keys, text, want)
	}

	g := &gate{open: make(chan struct{}, 1)}
	g.open <- struct{}{} // for the file's beginning
	said = nil
	c := wrap(t, a, g, capture.Config{Secrets: true, Buffer: 1, Log: func(text string) { said = append(said, text) }})
	out := newSealer(seal.AES)
	for range 5000 {
		c.Keys()(out.Log(testIndex))
		out.flip()
	}
	close(g.open)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	n, _ = decrypt(t, g.file.Bytes())
	if text, want := strings.Join(said, "\n"), fmt.Sprintf("%d keys are not in the file", 5000-n.Keys); n.Keys == 0 || n.Keys > 2000 || !strings.Contains(text, want) {
		t.Errorf("%d keys are in the file, which says %q; want %q", n.Keys, text, want)
	}
}

func TestADiskThatIsFullAtAKeyCountsFramesOnly(t *testing.T) {
	full := 0
	for size := 200; size < 2000; size += 13 {
		disk := &cutDisk{smallDisk{size: size}}
		a, b := pair()
		var said []string
		c := wrap(t, a, disk, capture.Config{Secrets: true, Inline: size%2 > 0, Log: func(text string) { said = append(said, text) }})
		out := newSealer(seal.AES)
		for range 5 {
			c.Keys()(out.Log(testIndex))
			linktest.Send(t, c, b.Addr(), out.frame("x", 0))
			out.flip()
		}
		err := c.Close()
		packets, _ := read(t, disk.Bytes())
		if errors.Is(err, errFull) {
			full++
		} else if err != nil || len(packets) != 5 {
			t.Errorf("a disk of %d bytes: %d frames and %v", size, len(packets), err)
		}
		if want := fmt.Sprintf("%d frames are in the file; %d are not", len(packets), 5-len(packets)); !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("a disk of %d bytes: said %q; want %q", size, said, want)
		}
	}
	if full < 20 {
		t.Errorf("%d disks were full", full)
	}
}

// sample returns a capture with keys, and with packets of every kind.
func sample(t testing.TB) []byte {
	a, b := pair()
	return recorded(t, a, b, capture.Config{Inline: true, Secrets: true, Snap: 100}, func(c *capture.Driver, send, receive func([]byte)) {
		out := newSealer(seal.AES)
		c.Keys()(out.Log(testIndex))
		c.Keys()(out.incoming(1))
		send(out.frame("opens", 0))
		receive(out.frame("opens", 0))
		send(out.frame(strings.Repeat("cut", 40), 0))
		out.flip()
		send(out.frame("no key", 0))
	})
}

func TestEachPrefixOfAFileIsDecryptedAsFarAsItGoesOrRefused(t *testing.T) {
	file := sample(t)
	whole, _ := decrypt(t, file)
	for i := range file {
		var out bytes.Buffer
		n, err := capture.Decrypt(bytes.NewReader(file[:i]), &out)
		if err != nil {
			if n.Keys > 0 {
				t.Fatalf("%d bytes with %d keys: %v", i, n.Keys, err)
			}
			continue
		}
		at := 0
		for at < i && at+int(binary.LittleEndian.Uint32(file[at+4:])) <= i {
			at += int(binary.LittleEndian.Uint32(file[at+4:]))
		}
		if n.Torn != (at < i) || n.Packets > whole.Packets {
			t.Errorf("%d bytes: %+v", i, n)
		}
	}
}

func TestWhatIsNoCaptureIsRefusedWithWhatWasExpected(t *testing.T) {
	good := sample(t)
	change := func(at int, value uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], value)
		return b
	}
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"nothing", "it is empty; expected a pcapng file", nil},
		{"few bytes", "less than 12 bytes", []byte("hello")},
		{"a text", "begins with 0x", []byte("this is no capture at all")},
		{"pcap", "begins with 0xa1b2c3d4; expected a pcapng file", change(0, 0xa1b2c3d4)},
		{"other order", "big-endian words; expected a little-endian file", change(8, 0x4d3c2b1a)},
		{"no order", "byte order 0x00000007; expected 0x1a2b3c4d", change(8, 7)},
		{"long block", "has 2097152 bytes; expected 12 to 1048576", change(4, 2<<20)},
		{"empty block", "has 0 bytes; expected 12", change(4, 0)},
		{"uneven block", "has 41 bytes; expected 12", change(4, 41)},
		{"two lengths", "at its beginning and of", change(4, binary.LittleEndian.Uint32(good[4:])-4)},
	} {
		if _, err := capture.Decrypt(bytes.NewReader(c.file), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	a, b := pair()
	keyless := recorded(t, a, b, capture.Config{Inline: true}, func(_ *capture.Driver, send, _ func([]byte)) { send([]byte("x")) })
	if _, err := capture.Decrypt(bytes.NewReader(keyless), io.Discard); !errors.Is(err, capture.ErrNoKeys) {
		t.Errorf("a capture without keys: %v", err)
	}
}

func TestLinesThatAreNoKeysAreCounted(t *testing.T) {
	file := sample(t)
	bad := bytes.ReplaceAll(file, []byte("WEFT_KEY in"), []byte("WEFT_KEY xy"))
	n, _ := decrypt(t, bad)
	if n.Keys != 1 || n.BadKeys != 1 || n.Opened != 1 {
		t.Errorf("%+v; want one key, one bad line and one frame", n)
	}
}

func FuzzDecrypt(f *testing.F) {
	file := sample(f)
	f.Add(file)
	f.Add(file[:len(file)-9])
	f.Add(bytes.ReplaceAll(file, []byte("AES-128-GCM"), []byte("ChaCha20-Po")))
	f.Fuzz(func(t *testing.T, file []byte) {
		var out bytes.Buffer
		n, err := capture.Decrypt(bytes.NewReader(file), &out)
		if err != nil {
			return
		}
		if sum := n.Opened + n.NoKey + n.Cut + n.Handshake + n.Unsealed + n.Foreign; sum != n.Packets {
			t.Fatalf("%+v: %d of %d packets are counted", n, sum, n.Packets)
		}
		if uint64(out.Len()) > uint64(len(file))+100*n.Opened {
			t.Fatalf("%d bytes became %d, with %d frames opened", len(file), out.Len(), n.Opened)
		}
		again, err := capture.Decrypt(bytes.NewReader(out.Bytes()), io.Discard)
		if !errors.Is(err, capture.ErrNoKeys) || again.Torn {
			t.Fatalf("the copy: %+v, %v", again, err)
		}
	})
}
