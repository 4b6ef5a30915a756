// Command events watches its peers. When a peer ends, an event says so. Events distinguish a NIC
// that was closed from one that fell silent.
//
//	go run ./examples/events
//
// It prints:
//
//	guest/0 says "here I am"
//	guest/0 has ended
//	its NIC was closed
//	a message to it: no process has the name
package main

import (
	"context"
	"errors"
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
	host, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "host"}})
	if err != nil {
		return err
	}
	defer host.Close()
	events := host.Watch()
	defer events.Close()
	cfg := weft.Config{Name: weft.Name{App: "guest"}, Nodes: []weft.Node{{Addr: host.NIC().Addr()}}}
	guest, err := weft.Open(ctx, cfg)
	if err != nil {
		return err
	}
	if err := guest.Peer(host.Name()).SendDelivered(ctx, 0, []byte("here I am")); err != nil {
		return errors.Join(err, guest.Close())
	}
	buf := make([]byte, 64)
	m, err := host.Recv(ctx, weft.AnyProcess, 0, buf)
	if err != nil {
		return err
	}
	fmt.Printf("%v says %q\n", m.From, buf[:m.Len])
	visitor := host.Peer(m.From)
	if err := visitor.SendDelivered(ctx, 0, []byte("welcome")); err != nil {
		return err
	}
	if err := guest.Close(); err != nil {
		return err
	}
	for e, err := range events.All(ctx) {
		if err != nil {
			return err
		}
		if e.Kind == weft.EventProcessGone {
			fmt.Println(e.Name, "has ended")
		}
		if e.Kind == weft.EventClosed {
			fmt.Println("its NIC was closed")
			break
		}
	}
	if err := visitor.Send(ctx, 0); errors.Is(err, weft.ErrNameUnknown) {
		fmt.Println("a message to it: no process has the name")
	}
	return nil
}
