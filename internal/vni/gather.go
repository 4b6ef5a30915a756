package vni

// Gather fills to with the bytes of a gather list, starting at offset.
func Gather(to []byte, from [][]byte, offset uint64) {
	for _, b := range from {
		if offset >= uint64(len(b)) {
			offset -= uint64(len(b))
			continue
		}
		to = to[copy(to, b[offset:]):]
		if len(to) == 0 {
			return
		}
		offset = 0
	}
}
