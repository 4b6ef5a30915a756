// Command attach attaches to the host's NIC daemon. If there is no daemon, it opens a NIC of its
// own. Only the opening differs: all other calls are the same.
//
//	weft nic &
//	go run ./examples/attach
//
// It prints, with a daemon:
//
//	a process of the host's NIC
//	note/0 has "to myself"
//
// and without one:
//
//	no daemon here: a NIC inside
//	note/0 has "to myself"
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
	name := weft.Name{App: "note"}
	p, err := weft.Attach(ctx, weft.AttachConfig{Name: name})
	switch {
	case err == nil:
		fmt.Println("a process of the host's NIC")
	// not ErrFull or ErrNotPermitted, which the operator must see
	case errors.Is(err, weft.ErrNoDaemon):
		fmt.Println("no daemon here: a NIC inside")
		p, err = weft.Open(ctx, weft.Config{Name: name})
	}
	if err != nil {
		return err
	}
	defer p.Close()

	if err := p.Send(ctx, name, 1, []byte("to myself")); err != nil {
		return err
	}
	buf := make([]byte, 64)
	m, err := p.Recv(ctx, weft.AnyProcess, 1, buf)
	if err != nil {
		return err
	}
	fmt.Printf("%v has %q\n", p.Name(), buf[:m.Len])
	return nil
}
