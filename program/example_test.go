package program_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// source is a program in PDL. Its trigger 1 adds the word of a message to a sum and displays the
// sum in the program's log.
const source = `
PROGRAM adder:
VAR sum;
TRIGGERS 1;

BEGIN
END;

MESSAGE 1:
BEGIN
    sum = sum + PACKET[0];
    DISPLAY sum;
END;
END;
`

// A process loads a program into its NIC and sends it three numbers.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "loader"}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	module, err := pdl.Compile("adder.pdl", []byte(source))
	if err != nil {
		log.Fatal(err)
	}
	programs := program.On(p)
	placed, err := programs.Load(ctx, []weft.NICID{0}, module.Encode(), program.Options{Start: true})
	if err != nil {
		log.Fatal(err)
	}

	adder := program.Address{ID: placed[0].ID} // NIC 0 is the process's own
	for _, n := range []uint64{2, 3, 5} {
		if err := programs.SendHandled(ctx, adder, 1, binary.LittleEndian.AppendUint64(nil, n)); err != nil {
			log.Fatal(err)
		}
	}
	sums, _, err := programs.Log(ctx, adder, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sums:", sums)
	// Output: sums: [2 5 10]
}
