package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// A program uses the host's NIC daemon if one runs, and otherwise its own NIC. Only the opening
// differs. Other errors, such as ErrNotPermitted, are for the operator.
func ExampleAttach() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	name := weft.Name{App: "note"}
	p, err := weft.Attach(ctx, weft.AttachConfig{
		Name:   name,
		Socket: "/no/daemon/here.sock", // empty: the daemon of the user or of the host
	})
	if errors.Is(err, weft.ErrNoDaemon) {
		p, err = weft.Open(ctx, weft.Config{Name: name})
	}
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	fmt.Println(p.Name(), "has a NIC of its own:", p.NIC() != nil)
	// Output: note/0 has a NIC of its own: true
}
