// Command memory reads and writes the memory of another process. The owner makes a region and sends
// its handle. The guest, which has the handle, PUTs and GETs without the owner's help.
//
//	go run ./examples/memory
//
// It prints:
//
//	the guest reads "what the owner wrote"
//	the owner finds "what the guest wrote"
//	beyond its end: true
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
	owner, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "owner"}})
	if err != nil {
		return err
	}
	defer owner.Close()
	cfg := weft.Config{Name: weft.Name{App: "guest"}, Nodes: []weft.Node{{Addr: owner.NIC().Addr()}}}
	guest, err := weft.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer guest.Close()

	region, err := owner.Alloc(4096)
	if err != nil {
		return err
	}
	defer region.Close()
	copy(region.Bytes(), "what the owner wrote")
	handle, err := region.Handle().MarshalBinary()
	if err != nil {
		return err
	}
	if _, err := owner.WaitName(ctx, guest.Name()); err != nil {
		return err
	}
	if err := owner.Send(ctx, guest.Name(), 0, handle); err != nil {
		return err
	}
	if err := visit(ctx, guest, owner.Name()); err != nil {
		return err
	}
	fmt.Printf("the owner finds %q\n", region.Bytes()[:20])
	err = guest.Put(ctx, region.Handle(), 4090, make([]byte, 7))
	fmt.Println("beyond its end:", errors.Is(err, weft.ErrRange))
	return nil
}

// visit receives a handle, reads the region, and writes into it.
func visit(ctx context.Context, guest *weft.Process, owner weft.Name) error {
	peer := guest.Peer(owner)
	buf := make([]byte, weft.HandleLen)
	if _, err := peer.Recv(ctx, 0, buf); err != nil {
		return err
	}
	var h weft.Handle
	if err := h.UnmarshalBinary(buf); err != nil {
		return err
	}
	text := make([]byte, 20)
	// Get and Put of the Peer refuse a handle of another process.
	if err := peer.Get(ctx, h, 0, text); err != nil {
		return err
	}
	fmt.Printf("the guest reads %q\n", text)
	return peer.Put(ctx, h, 0, []byte("what the guest wrote"))
}
