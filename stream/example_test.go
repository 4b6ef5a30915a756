package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"syscall"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// A server echoes what a client sends. The two processes could run on two hosts.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, client := openTwo(ctx)
	defer server.Close()
	defer client.Close()

	l, err := stream.Listen(server, "echo")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		io.Copy(c, c) // until the client calls CloseWrite
	}()

	c, err := stream.Dial(ctx, client, "server/0:echo")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "hello, stream")
	c.CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v answered %q\n", c.RemoteAddr(), answer)
	// Output: server/0:echo answered "hello, stream"
}

// openTwo opens two processes, each with its own NIC, and waits until they know each other.
func openTwo(ctx context.Context) (server, client *weft.Process) {
	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "server"}})
	if err != nil {
		log.Fatal(err)
	}
	client, err = weft.Open(ctx, weft.Config{
		Name:  weft.Name{App: "client"},
		Nodes: []weft.Node{{Addr: server.NIC().Addr()}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.WaitName(ctx, server.Name()); err != nil {
		log.Fatal(err)
	}
	return server, client
}

// Package net/http runs over streams. The host of a URL names the service and its process.
func ExampleTransport() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, client := openTwo(ctx)
	defer server.Close()
	defer client.Close()

	l, err := stream.Listen(server, "http")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	}))

	c := &http.Client{Transport: stream.Transport(client)}
	r, err := c.Get("http://http.0.server.weft/greeting")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", r.Status, body)
	// Output: 200 OK: /greeting of http.0.server.weft
}

// A Dialer bounds each dial. Its DialContext fits an http.Transport with other settings.
func ExampleDialer() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, client := openTwo(ctx)
	defer server.Close()
	defer client.Close()

	l, err := stream.Listen(server, "http")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, http.NotFoundHandler())

	d := &stream.Dialer{Process: client, Timeout: 10 * time.Second}
	c := &http.Client{Transport: &http.Transport{DialContext: d.DialContext, MaxConnsPerHost: 4}}
	r, err := c.Get("http://http.0.server.weft/")
	if err != nil {
		log.Fatal(err)
	}
	r.Body.Close()
	fmt.Println(r.Status)

	_, err = d.Dial(ctx, "server/0:printer")
	fmt.Println("refused:", errors.Is(err, syscall.ECONNREFUSED))
	// Output:
	// 404 Not Found
	// refused: true
}

// ParseHost and Addr.Host convert between an address and the host of a URL.
func ExampleParseHost() {
	a, err := stream.ParseHost("http.0.web.weft", 80)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a)
	fmt.Println("http://" + a.Host() + "/")
	// Output:
	// web/0:http
	// http://http.0.web.weft/
}
