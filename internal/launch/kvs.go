package launch

import "encoding/binary"

// Bounds of a job's key-value space. PMI-1 tells its clients the first two.
const (
	MaxKeyBytes   = 255
	MaxValueBytes = 4096
	MaxKVSBytes   = 8 << 20 // keys and values of one job
)

// entry is one value of the key-value space. In a message:
//
//	length of the key 1 · key · length of the value 2 · value
type entry struct{ key, value string }

func (e *entry) size() int { return 1 + len(e.key) + 2 + len(e.value) }

func putEntries(b []byte, k kind, more bool, entries []entry) []byte {
	b = append(b, byte(k), putBool(more))
	for i := range entries {
		e := &entries[i]
		b = append(append(b, byte(len(e.key))), e.key...)
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(e.value))), e.value...)
	}
	return b
}

// entries reads entries to the end of the message.
func (f *fields) entries() (list []entry) {
	if len(f.b) > maxEntries {
		f.fail("%d bytes of entries; expected at most %d", len(f.b), maxEntries)
	}
	for f.err == nil && len(f.b) > 0 {
		key := f.take(int(f.byte(1, MaxKeyBytes)))
		length := f.take(2)
		if length == nil {
			return nil
		}
		n := int(binary.LittleEndian.Uint16(length))
		if n > MaxValueBytes {
			f.fail("a value of %d bytes; expected at most %d", n, MaxValueBytes)
			return nil
		}
		list = append(list, entry{string(key), string(f.take(n))})
	}
	if f.err != nil {
		return nil
	}
	return list
}

// batches cuts entries into messages of at most maxEntries bytes. The last one has more = false.
func batches(entries []entry, send func(more bool, part []entry) error) error {
	for {
		n, size := 0, 0
		for n < len(entries) && size+entries[n].size() <= maxEntries {
			size += entries[n].size()
			n++
		}
		if err := send(n < len(entries), entries[:n]); err != nil || n == len(entries) {
			return err
		}
		entries = entries[n:]
	}
}
