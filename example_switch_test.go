package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// A Switch connects NICs of one program without a network. Addresses work as on any other link.
func ExampleSwitch_Link() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	sw := weft.NewSwitch()
	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "server"}, Link: sw.Link()})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "client"},
		Link:  sw.Link(),
		Nodes: []weft.Node{{Addr: server.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	if err := client.Send(ctx, server.Name(), 0, []byte("by memory")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	m, err := server.Recv(ctx, weft.AnyProcess, 0, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %s\n", m.From, buf[:m.Len])
	// Output: client/0: by memory
}
