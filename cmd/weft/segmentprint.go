package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// printBytes prints bytes whose first has an offset, in a form of weft segment read.
func printBytes(out io.Writer, data []byte, offset int, as string) error {
	if as == "raw" {
		_, err := out.Write(data)
		return err
	}
	w := bufio.NewWriter(out)
	for len(data) > 0 {
		if as == "words" {
			var word [8]byte
			n := copy(word[:], data) // of the last word, the bytes behind the end are 0
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
