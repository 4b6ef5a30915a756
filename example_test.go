package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// Two processes, each with its own NIC, exchange a message. One of them knows the address of the
// other. They could also be on two hosts.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "server"}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "client"},
		Nodes: []weft.Node{{Addr: server.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	if err := client.Send(ctx, server.Name(), 7, []byte("hello, fabric")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	m, err := server.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v sent %q with tag %d\n", m.From, buf[:m.Len], m.Tag)
	// Output: client/0 sent "hello, fabric" with tag 7
}
