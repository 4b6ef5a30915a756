package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// The owner of a region sends its handle. The receiver writes and reads the region without the
// owner's help. Here both processes are on one NIC; they could also be on two hosts.
func ExampleProcess_Put() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	owner, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "owner"}})
	if err != nil {
		log.Fatal(err)
	}
	defer owner.Close()
	guest, err := owner.NIC().Attach(ctx, weft.Name{App: "guest"})
	if err != nil {
		log.Fatal(err)
	}
	region, err := owner.Alloc(4096)
	if err != nil {
		log.Fatal(err)
	}
	defer region.Close()
	handle, err := region.Handle().MarshalBinary()
	if err != nil {
		log.Fatal(err)
	}
	if err := owner.Send(ctx, guest.Name(), 0, handle); err != nil {
		log.Fatal(err)
	}

	buf := make([]byte, weft.HandleLen)
	if _, err := guest.Recv(ctx, owner.Name(), 0, buf); err != nil {
		log.Fatal(err)
	}
	var h weft.Handle
	if err := h.UnmarshalBinary(buf); err != nil {
		log.Fatal(err)
	}
	if err := guest.Put(ctx, h, 100, []byte("written from afar")); err != nil {
		log.Fatal(err)
	}
	text := make([]byte, 4)
	if err := guest.Get(ctx, h, 113, text); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", text)
	// Output: afar
}

// A Share gives other processes access to a part of a region, here for reading only.
func ExampleRegion_Share() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	owner, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "owner"}})
	if err != nil {
		log.Fatal(err)
	}
	defer owner.Close()
	guest, err := owner.NIC().Attach(ctx, weft.Name{App: "guest"})
	if err != nil {
		log.Fatal(err)
	}
	region, err := owner.Alloc(4096)
	if err != nil {
		log.Fatal(err)
	}
	defer region.Close()
	copy(region.Bytes(), "private public private")
	share, err := region.Share(8, 6, weft.ReadOnly)
	if err != nil {
		log.Fatal(err)
	}
	defer share.Close()

	peer, h := guest.Peer(owner.Name()), share.Handle()
	text := make([]byte, 6)
	if err := peer.Get(ctx, h, 0, text); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the guest reads %q\n", text)
	err = peer.Get(ctx, h, 1, text)
	fmt.Println("beyond the end:", errors.Is(err, weft.ErrRange))
	err = peer.Put(ctx, h, 0, text)
	fmt.Println("not for writing:", errors.Is(err, weft.ErrRegion))
	// Output:
	// the guest reads "public"
	// beyond the end: true
	// not for writing: true
}
