package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// An Inbox is the fastest way to receive a stream of short messages. It needs no buffer of the
// caller: Message.Data holds the bytes until the loop asks for the next message.
func ExampleInbox() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "self"}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	in, err := p.Inbox(weft.AnyProcess, weft.AnyTag, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()

	const text, end = 1, 2 // tags
	self := p.Peer(p.Name())
	for _, word := range []string{"one", "two", "three"} {
		if err := self.Send(ctx, text, []byte(word)); err != nil {
			log.Fatal(err)
		}
	}
	if err := self.Send(ctx, end); err != nil {
		log.Fatal(err)
	}
	for m, err := range in.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if m.Tag == end {
			break
		}
		fmt.Printf("%v: %s\n", m.From, m.Data)
	}
	// Output:
	// self/0: one
	// self/0: two
	// self/0: three
}
