package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// Two processes on two NICs that know one another by one address. They could as well be on two hosts.
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

// A stream of short messages is best read from an Inbox.
func ExampleProcess_Inbox() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "self"}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	in, err := p.Inbox(weft.AnyProcess, 7, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	for _, text := range []string{"one", "two", "three"} {
		if err := p.Send(ctx, p.Name(), 7, []byte(text)); err != nil {
			log.Fatal(err)
		}
	}
	for range 3 {
		m, err := in.Next(ctx)
		data := m.Data
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v: %s\n", m.From, data)
	}
	// Output:
	// self/0: one
	// self/0: two
	// self/0: three
}
