package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// Start forms keep several operations in flight. The zero Op is ready, and its memory belongs to
// the NIC until Wait returns.
func ExampleOp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "self"}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	self := p.Peer(p.Name())
	var receive, send weft.Op
	buf := make([]byte, 64)
	if err := self.StartRecv(&receive, 7, buf); err != nil {
		log.Fatal(err)
	}
	if err := self.StartSend(&send, 7, []byte("in "), []byte("flight")); err != nil {
		log.Fatal(err)
	}
	// Other work goes here.
	if _, err := send.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	m, err := receive.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, tag %d\n", buf[:m.Len], m.Tag)
	// Output: in flight, tag 7
}
