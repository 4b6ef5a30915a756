package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// The host learns that its guest has ended. A process gets events only about peers with which it
// has exchanged messages.
func ExampleProcess_Watch() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	host, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "host"}})
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	events := host.Watch()
	defer events.Close()
	guest, err := weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "guest"},
		Nodes: []weft.Node{{Addr: host.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}

	if err := guest.Send(ctx, host.Name(), 0, []byte("here I am")); err != nil {
		log.Fatal(err)
	}
	m, err := host.Recv(ctx, weft.AnyProcess, 0, make([]byte, 64))
	if err != nil {
		log.Fatal(err)
	}
	if err := host.Peer(m.From).SendDelivered(ctx, 0, []byte("welcome")); err != nil {
		log.Fatal(err)
	}
	if err := guest.Close(); err != nil {
		log.Fatal(err)
	}
	for e, err := range events.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if e.Kind == weft.EventProcessGone {
			fmt.Println(e.Name, "has ended")
			break
		}
	}
	// Output: guest/0 has ended
}
