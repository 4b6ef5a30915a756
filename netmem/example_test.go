package netmem_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
)

// One process lends 1 MiB of its memory, and another process stores a page there. The processes
// can also be on two hosts.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	lender, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "memory"}})
	if err != nil {
		log.Fatal(err)
	}
	defer lender.Close()
	server, err := netmem.Serve(lender, netmem.ServerConfig{Bytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	user, err := weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "user"},
		Nodes: []weft.Node{{Addr: lender.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer user.Close()
	client, err := netmem.NewClient(ctx, user, netmem.ClientConfig{
		Servers: []netmem.ServerRef{{Name: lender.Name()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	page := bytes.Repeat([]byte("weft"), 1024)
	if err := client.WritePage(ctx, 7, page); err != nil {
		log.Fatal(err)
	}
	read := make([]byte, len(page))
	if err := client.ReadPage(ctx, 7, read); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("page 7 has %d bytes: %s…\n", len(read), read[:8])
	// Output: page 7 has 4096 bytes: weftweft…
}

// A volume is written and read at offsets. Here each page is on both servers.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	var servers []netmem.ServerRef
	var nodes []weft.Node
	for i := range uint32(2) {
		p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "memory", Index: i}})
		if err != nil {
			log.Fatal(err)
		}
		defer p.Close()
		if _, err := netmem.Serve(p, netmem.ServerConfig{Bytes: 1 << 20}); err != nil {
			log.Fatal(err)
		}
		servers = append(servers, netmem.ServerRef{Name: p.Name()})
		nodes = append(nodes, weft.Node{Addr: p.NIC().Addr()})
	}
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "user"}, Nodes: nodes})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	v, err := netmem.Open(ctx, p, netmem.VolumeConfig{
		ClientConfig: netmem.ClientConfig{Servers: servers, Copies: 2},
		Bytes:        512 << 10,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	if _, err := v.WriteAt([]byte("across two pages"), 4090); err != nil {
		log.Fatal(err)
	}
	b := make([]byte, 18)
	if _, err := v.ReadAt(b, 4089); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", b)
	// Output: "\x00across two pages\x00"
}

// Any process of the fabric may ask a server for its statistics.
func ExampleStat() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	lender, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "memory"}})
	if err != nil {
		log.Fatal(err)
	}
	defer lender.Close()
	if _, err := netmem.Serve(lender, netmem.ServerConfig{Bytes: 1 << 20}); err != nil {
		log.Fatal(err)
	}
	p, err := weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "observer"},
		Nodes: []weft.Node{{Addr: lender.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	st, err := netmem.Stat(ctx, p, lender.Name())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d of %d bytes used, %d pages of %d clients\n", st.UsedBytes, st.Bytes, st.Pages, st.Clients)
	// Output: 0 of 1048576 bytes used, 0 pages of 0 clients
}
