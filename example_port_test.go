package weft_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// A library takes a port of the application's process. Both use tag 1, and neither receives the
// messages of the other.
func ExampleProcess_Port() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "app"}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	port, err := p.Port(100) // the number that all users of the library use
	if err != nil {
		log.Fatal(err)
	}
	defer port.Close()

	if err := p.Send(ctx, p.Name(), 1, []byte("the application's")); err != nil {
		log.Fatal(err)
	}
	if err := port.Send(ctx, p.Name(), 1, []byte("the library's")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	m, err := port.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("port %d: %s\n", port.Number(), buf[:m.Len])
	if m, err = p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("process: %s\n", buf[:m.Len])
	// Output:
	// port 100: the library's
	// process: the application's
}
