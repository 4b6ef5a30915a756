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

// squares answers a message of two words, a process's number and a value, with the square of the
// value. AT SOURCE is the NIC that sent the message, and 33 is the tag of the answer.
const squares = `
PROGRAM squares:
VAR square;
TRIGGERS 1;

BEGIN
END;

MESSAGE 1:
BEGIN
    square = PACKET[1] * PACKET[1];
    SEND square LEN 8 AS 33 TO PACKET[0] AT SOURCE;
END;
END;
`

// A program answers a process of another NIC. The process host only loads it and takes no part.
func ExampleClient_Number() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	host, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "host"}})
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	module, err := pdl.Compile("squares.pdl", []byte(squares))
	if err != nil {
		log.Fatal(err)
	}
	placed, err := program.On(host).Load(ctx, []weft.NICID{0}, module.Encode(), program.Options{Start: true})
	if err != nil {
		log.Fatal(err)
	}
	id := placed[0].ID

	p, err := weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "asker"},
		Nodes: []weft.Node{{Addr: host.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if _, err := p.WaitName(ctx, host.Name()); err != nil { // the NICs know each other now
		log.Fatal(err)
	}
	programs := program.On(p)
	request := binary.LittleEndian.AppendUint64(nil, uint64(programs.Number()))
	request = binary.LittleEndian.AppendUint64(request, 12)
	if err := programs.Send(ctx, program.Address{NIC: host.NIC().ID(), ID: id}, 1, request); err != nil {
		log.Fatal(err)
	}
	answer := make([]byte, 8)
	if _, err := p.Recv(ctx, program.NameOf(id), 33, answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the square of 12 is", binary.LittleEndian.Uint64(answer))
	// Output: the square of 12 is 144
}
