package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// printBytes prints data in a format of weft segment read. offset is that of the first byte.
func printBytes(out io.Writer, data []byte, offset int, as string) error {
	if as == "raw" {
		_, err := out.Write(data)
		return err
	}
	w := bufio.NewWriter(out)
	for len(data) > 0 {
		if as == "words" {
			var word [8]byte
			// in the last word, the bytes past the end are 0
			n := copy(word[:], data)
			fmt.Fprintf(w, "%d\n", int64(binary.LittleEndian.Uint64(word[:])))
			data = data[n:]
			continue
		}
		n := min(len(data), 16)
		fmt.Fprintf(w, "%08x  % x\n", offset, data[:n])
		data, offset = data[n:], offset+n
	}
	return w.Flush()
}
