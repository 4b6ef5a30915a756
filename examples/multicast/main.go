// Command multicast sends one message to three processes by one command to the NIC. Each of them
// receives an ordinary message.
//
//	go run ./examples/multicast
//
// It prints:
//
//	reader/0 has "news"
//	reader/1 has "news"
//	reader/2 has "news"
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
	press, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "press"}})
	if err != nil {
		return err
	}
	defer press.Close()
	var readers []*weft.Process
	var names []weft.Name
	for i := range uint32(3) {
		cfg := weft.Config{Name: weft.Name{App: "reader", Index: i}, Nodes: []weft.Node{{Addr: press.NIC().Addr()}}}
		r, err := weft.Open(ctx, cfg)
		if err != nil {
			return err
		}
		defer r.Close()
		if _, err := press.WaitName(ctx, r.Name()); err != nil {
			return err
		}
		readers, names = append(readers, r), append(names, r.Name())
	}

	if err := press.Multicast(ctx, names, 0, []byte("news")); err != nil {
		return err
	}
	buf := make([]byte, 64)
	for _, r := range readers {
		m, err := r.Recv(ctx, press.Name(), 0, buf)
		if err != nil {
			return err
		}
		fmt.Printf("%v has %q\n", r.Name(), buf[:m.Len])
	}
	return nil
}
