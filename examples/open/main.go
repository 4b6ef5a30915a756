// Command open sends one message between two processes, each with a NIC of its own. The client
// knows the address of the server's NIC. With that address the two could also run on two hosts.
//
//	go run ./examples/open
//
// It prints:
//
//	client/0 sent "hello, fabric" with tag 7
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "server"}})
	if err != nil {
		return err
	}
	defer server.Close()
	cfg := weft.Config{Name: weft.Name{App: "client"}, Nodes: []weft.Node{{Addr: server.NIC().Addr()}}}
	client, err := weft.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer client.Close()

	if err := client.Send(ctx, server.Name(), 7, []byte("hello, fabric")); err != nil {
		return err
	}
	buf := make([]byte, 64)
	m, err := server.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
	if err != nil {
		return err
	}
	fmt.Printf("%v sent %q with tag %d\n", m.From, buf[:m.Len], m.Tag)
	return nil
}
