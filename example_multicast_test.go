package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// One command to the NIC sends a message to three processes. Each process receives it like any
// other message.
func ExampleProcess_Multicast() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	press, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "press"}})
	if err != nil {
		log.Fatal(err)
	}
	defer press.Close()
	var readers []*weft.Process
	var names []weft.Name
	for i := range uint32(3) {
		r, err := press.NIC().Attach(ctx, weft.Name{App: "reader", Index: i})
		if err != nil {
			log.Fatal(err)
		}
		readers, names = append(readers, r), append(names, r.Name())
	}

	if err := press.Multicast(ctx, names, 0, []byte("news")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	for _, r := range readers {
		m, err := r.Recv(ctx, press.Name(), 0, buf)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v: %s\n", r.Name(), buf[:m.Len])
	}
	// Output:
	// reader/0: news
	// reader/1: news
	// reader/2: news
}
