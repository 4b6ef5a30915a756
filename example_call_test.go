package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// serve answers each call with its text in capitals until the process is closed. A caller that
// asks too much or has given up does not end the server.
func serve(ctx context.Context, p *weft.Process) error {
	request := make([]byte, 64)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, request)
		if errors.Is(err, weft.ErrClosed) {
			return nil
		} else if err != nil && !errors.Is(err, weft.ErrTruncated) {
			return err
		}
		if err := p.Reply(ctx, m, bytes.ToUpper(request[:m.Len])); err != nil {
			log.Print(err)
		}
	}
}

// A client asks, and a server answers. The reply goes to the process that called.
func ExamplePeer_Call() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "letters"}})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, server) }()
	client, err := weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "client"},
		Nodes: []weft.Node{{Addr: server.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	letters := client.Peer(server.Name())
	reply := make([]byte, 64)
	for _, text := range []string{"warp", "weft"} {
		m, err := letters.Call(ctx, 0, []byte(text), reply)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", text, reply[:m.Len])
	}
	if err := errors.Join(server.Close(), <-served); err != nil {
		log.Fatal(err)
	}
	// Output:
	// warp: WARP
	// weft: WEFT
}
