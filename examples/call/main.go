// Command call asks a server and gets an answer. Call sends a request and waits for the reply.
// Reply answers the process that called.
//
//	go run ./examples/call
//
// It prints:
//
//	upper: "WARP"
//	lower: "weft"
//	twice: the server does not know how
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weftnet/weft"
)

// The tag of a request says what the server should do.
const (
	upper weft.Tag = iota
	lower
	twice
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "letters"}})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, server) }()
	cfg := weft.Config{Name: weft.Name{App: "client"}, Nodes: []weft.Node{{Addr: server.NIC().Addr()}}}
	client, err := weft.Open(ctx, cfg)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer client.Close()

	letters := client.Peer(server.Name())
	reply := make([]byte, 64)
	for _, question := range []struct {
		tag        weft.Tag
		name, text string
	}{{upper, "upper", "warp"}, {lower, "lower", "WEFT"}, {twice, "twice", "warp"}} {
		m, err := letters.Call(ctx, question.tag, []byte(question.text), reply)
		switch {
		case err != nil:
			return err
		case m.Len == 0:
			fmt.Printf("%s: the server does not know how\n", question.name)
		default:
			fmt.Printf("%s: %q\n", question.name, reply[:m.Len])
		}
	}
	return errors.Join(server.Close(), <-served)
}

// serve answers requests until the process is closed. An empty reply means that the server
// cannot do what the caller asks. No caller can stop the server: not by a request that is too
// long, and not by giving up or ending before the reply.
func serve(ctx context.Context, p *weft.Process) error {
	buf := make([]byte, 64)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
		if errors.Is(err, weft.ErrClosed) {
			return nil
		} else if err != nil && !errors.Is(err, weft.ErrTruncated) {
			return err
		}
		var answer []byte
		switch {
		case err != nil: // buf holds only the beginning of the request
		case m.Tag == upper:
			answer = bytes.ToUpper(buf[:m.Len])
		case m.Tag == lower:
			answer = bytes.ToLower(buf[:m.Len])
		}
		if err := p.Reply(ctx, m, answer); err != nil {
			log.Print(err)
		}
	}
}
