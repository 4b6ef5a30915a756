package capture

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/wire"
)

// Decrypted counts the packets and the keys of a capture.
type Decrypted struct {
	Packets   uint64
	Opened    uint64 // sealed frames, decrypted
	NoKey     uint64 // sealed frames that no key in the file opens
	Cut       uint64 // sealed frames that the file does not hold in full
	Handshake uint64 // handshake frames, which frame keys do not open
	Unsealed  uint64 // frames of plain links, and plain frames of programs in drivers
	Foreign   uint64 // packets that are not frames of Weft
	Keys      int
	BadKeys   uint64 // invalid lines in Weft's secrets blocks
	Torn      bool   // the file ends within a block
}

// ErrNoKeys means that a capture holds no keys.
var ErrNoKeys = errors.New(
	"the file holds no keys; expected a capture that was made with secrets (weft nic --capture-secrets)")

// Decrypt copies a capture and decrypts the sealed frames by the keys in it. In a decrypted
// frame the plaintext replaces the ciphertext, between the outer header and the tag, and a
// comment of the packet names the cipher. The copy holds no keys. All other blocks stay as they
// are. in may be any file; the error says what is wrong with it.
func Decrypt(in io.ReadSeeker, out io.Writer) (Decrypted, error) {
	d := decrypter{ring: map[ringPlace][]*ringKey{}, out: bufio.NewWriterSize(out, 64<<10),
		scratch: make([]byte, limits.CaptureBlock)}
	if err := d.each(in, d.collect); err != nil {
		return d.Decrypted, err
	}
	if d.Keys == 0 {
		return d.Decrypted, ErrNoKeys
	}
	for _, keys := range d.ring {
		slices.SortStableFunc(keys, func(a, b *ringKey) int { return cmp.Compare(a.First, b.First) })
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return d.Decrypted, err
	}
	if err := d.each(in, d.rewrite); err != nil {
		return d.Decrypted, err
	}
	return d.Decrypted, d.out.Flush()
}

// decrypter holds the state of a Decrypt.
type decrypter struct {
	Decrypted
	ring    map[ringPlace][]*ringKey // keys of each place, by first packet counter
	ready   []*ringKey               // keys with an opener
	raw     []bool                   // per interface of the section: packets begin with IP headers
	out     *bufio.Writer
	block   []byte // block to write
	scratch []byte // buffer for opened frames
}

// ringPlace holds the fields of a frame that select its keys.
type ringPlace struct {
	index         uint32
	outbound, odd bool
}

// ringKey is a key, with its opener once a frame has needed it.
type ringKey struct {
	seal.KeyLog
	opener *seal.Key
}

// openers is the number of keys with an opener at once. Each takes a kilobyte.
const openers = 1024

// each calls do with each block of a file, which may end within a block.
func (d *decrypter) each(in io.Reader, do func(kind uint32, block []byte) error) error {
	for b := readBlocks(in); ; {
		kind, block, err := b.next()
		switch {
		case err == io.EOF && b.at == 0:
			return errors.New("not a capture: it is empty; expected a pcapng file")
		case err == io.EOF:
			return nil
		case err == errTorn:
			d.Torn = true
			return nil
		case err != nil:
			return err
		}
		if err := do(kind, block); err != nil {
			return err
		}
	}
}

// weftKeys returns the lines of a block with keys.
func weftKeys(kind uint32, block []byte) (text []byte, ok bool) {
	if kind != blockSecrets || len(block) < 20 || le.Uint32(block[8:]) != secretsType {
		return nil, false
	}
	text = block[16 : len(block)-4]
	return text[:min(int64(len(text)), int64(le.Uint32(block[12:])))], true
}

// collect takes the keys of a block.
func (d *decrypter) collect(kind uint32, block []byte) error {
	text, _ := weftKeys(kind, block)
	for line := range bytes.Lines(text) {
		k, err := parseKey(strings.TrimSuffix(string(line), "\n"))
		if err != nil {
			d.BadKeys++
			continue
		}
		if d.Keys++; d.Keys > limits.CaptureKeys {
			return fmt.Errorf("the file holds more than %d keys; cut it into parts", limits.CaptureKeys)
		}
		at := ringPlace{k.Index, k.Outbound, k.Phase&1 != 0}
		d.ring[at] = append(d.ring[at], &ringKey{KeyLog: k})
	}
	return nil
}

// rewrite writes a block to the copy.
func (d *decrypter) rewrite(kind uint32, block []byte) error {
	d.block = d.block[:0]
	switch kind {
	case blockSecrets:
		if _, ok := weftKeys(kind, block); ok {
			return nil
		}
	case blockSection:
		d.raw = d.raw[:0]
	case blockInterface:
		if d.raw = append(d.raw, len(block) >= 20 && le.Uint16(block[8:]) == linkRaw); len(d.raw) > 1<<16 {
			return fmt.Errorf("the file has more than %d interfaces", 1<<16)
		}
	case blockPacket:
		d.Packets++
		d.packet(block)
	}
	if len(d.block) > 0 {
		block = d.block
	}
	_, err := d.out.Write(block)
	return err
}

// packet decrypts the frame of a packet and puts the changed block into d.block. If nothing
// changes, d.block stays empty.
func (d *decrypter) packet(block []byte) {
	p, ok := parsePacket(block)
	if !ok || int64(p.nic) >= int64(len(d.raw)) || !d.raw[p.nic] {
		d.Foreign++
		return
	}
	at, end, whole := datagram(p.data)
	if at == 0 {
		d.Foreign++
		return
	}
	frame := p.data[at:]
	if whole {
		frame = p.data[at:end]
	}
	o, _, err := wire.ParseOuter(frame)
	switch {
	case err != nil:
		d.Foreign++
	case o.Flags&wire.FlagSealed == 0:
		d.Unsealed++
	case o.Kind.OfHandshake():
		d.Handshake++
	case !whole || uint64(len(p.data)) < uint64(p.length):
		d.Cut++
	default:
		k := d.open(o, frame, p.way)
		if k == nil {
			d.NoKey++
			return
		}
		d.Opened++
		mendSum(p.data, at, end)
		d.block = p.appendChanged(d.block, p.data,
			fmt.Sprintf("was sealed by %v in phase %d of its direction; decrypted",
				k.Suite, k.Phase))
	}
}

// open decrypts a frame in place and returns the key that fits, or nil.
func (d *decrypter) open(o wire.Outer, frame []byte, way uint32) *ringKey {
	clear := wire.OuterLen
	if o.Flags&wire.FlagClear != 0 {
		clear = wire.ClearLen
	}
	body := len(frame) - wire.TagLen - clear
	if body < 0 {
		return nil
	}
	to := d.scratch[:body]
	for _, outbound := range []bool{true, false} {
		if outbound && way == flagInbound || !outbound && way == flagOutward {
			continue
		}
		for _, k := range d.near(ringPlace{o.Index, outbound, o.Flags&wire.FlagPhase != 0}, o.Counter) {
			if opener := d.opener(k); opener != nil && opener.Open(to, frame, clear, o.Counter) {
				copy(frame[clear:], to)
				return k
			}
		}
	}
	return nil
}

// near returns the keys that can have sealed a frame with this counter: the key of the last
// phase that had begun, the next key, since later frames can overtake the first frames of a
// phase, and the two keys before, since another session with the same index can lie between.
func (d *decrypter) near(at ringPlace, counter uint64) []*ringKey {
	keys := d.ring[at]
	i, found := slices.BinarySearchFunc(keys, counter,
		func(k *ringKey, c uint64) int { return cmp.Compare(k.First, c) })
	if found {
		i++
	}
	return keys[max(0, i-3):min(len(keys), i+1)]
}

// opener returns the opener of a key.
func (d *decrypter) opener(k *ringKey) *seal.Key {
	if k.opener != nil {
		return k.opener
	}
	if len(d.ready) == openers {
		for _, other := range d.ready {
			other.opener = nil
		}
		d.ready = d.ready[:0]
	}
	k.opener, _ = seal.LoggedKey(&k.KeyLog) // parseKey has checked the key's length
	d.ready = append(d.ready, k)
	return k.opener
}
