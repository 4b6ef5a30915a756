// Command opgen writes the Go code that depends on the instruction set, from its one table
// (table.go):
//
//	opgen effects   pdl/prog/opcodes.go   numbers, names, effects: for verifier and disassembler
//	opgen loop      pdl/vm/loop.go        the interpreter's switch
//
// It prints to standard output. `go generate ./pdl/...` puts the text into the files, and a test
// checks that they are current.
package main

import (
	"flag"
	"fmt"
)

func main() {
	flag.Parse()
	text, err := generate(flag.Arg(0))
	if err != nil {
		panic(err)
	}
	fmt.Print(text)
}
