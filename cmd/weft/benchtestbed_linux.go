package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/bench"
	"github.com/weftnet/weft/internal/testbed"
)

// serverPort is where the server waits on a testbed's host, where nobody else is.
const serverPort = bench.DefaultPort

// runOnTestbed makes two hosts, and has both sides of a measurement run there, each as a weft of its own. The testbed ends with
// this process, however that ends, and both sides with it.
func (f *benchFlags) runOnTestbed(c *cobra.Command) (err error) {
	tb, err := testbed.New(testbed.Config{Hosts: 2, Loss: f.loss, Lossy: c.Flags().Changed("loss"), MTU: f.mtu})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tb.Close()) }()
	addr := fmt.Sprintf("%v:%d", tb.Host(1).Addr(), serverPort)
	server := tb.Host(1).Command(c.Context(), f.Self, f.arguments("--serve", "--child", "--listen", addr)...)
	server.Stderr = c.ErrOrStderr()
	in, err := server.StdinPipe() // the server ends when its standard input does
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("starting the server on its host: %w", err)
	}
	defer func() {
		in.Close()
		err = errors.Join(err, server.Wait())
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server on its host told no address: %w", err)
	}
	client := tb.Host(0).Command(c.Context(), f.Self, append(f.arguments("--time", f.Time.String()), strings.TrimSpace(line))...)
	client.Stdout, client.Stderr = c.OutOrStdout(), c.ErrOrStderr()
	client.WaitDelay = time.Second
	if f.json {
		client.Args = append(client.Args, "--json")
	}
	if len(f.Sizes) == 1 {
		client.Args = append(client.Args, "--size", fmt.Sprint(f.Sizes[0]))
	} else {
		client.Args = append(client.Args, "--size", "all")
	}
	return passOn(client.Run())
}

// arguments are those that a side of the measurement shares with us, and more.
func (f *benchFlags) arguments(more ...string) []string {
	return append([]string{"bench", f.Kind, "--link", f.Link, "--deployment", f.Deployment}, more...)
}
