// Package bench measures what Weft carries between two processes. `weft bench` runs it.
//
//	client                                  server
//	  │ ─── Call: plan (kind, size) ────────► │ posts its receives
//	  │ ◄────────────────── Reply: ready ──── │
//	  │ ─── data ───────────────────────────► │
//	  │ ◄────────────── data (latency only) ─ │
//	  │      … until the time is over …       │
//	  │ ─── Call: stop ─────────────────────► │ comes after all data; messages keep their order
//	  │ ◄──────────── Reply: how many came ── │
//
// The client has the clock. A rate or a bandwidth counts the data that has arrived, over the
// time from the first message to the answer to stop.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

// MaxSize is the longest message that can be measured, in bytes.
const MaxSize = 64 << 20

// Sizes returns the sizes of --size all, in bytes: powers of four, up to the largest of OSU's
// benchmarks.
func Sizes() []int {
	return []int{1, 4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}
}

// Names of the two processes.
var (
	ServerName = weft.Name{App: "weft-bench", Index: 0}
	ClientName = weft.Name{App: "weft-bench", Index: 1}
)

// Tags of the messages between the two.
const (
	tagPlan weft.Tag = iota + 1
	tagData
	tagStop
)

// plan is a measurement in which the client asks the server to take part.
type plan struct {
	Echo      bool `json:"echo"`                // the server sends every message back
	Datagrams bool `json:"datagrams,omitempty"` // the messages are datagrams
	// bytes of a connection instead: overStream or overTCP
	Over   string `json:"over,omitempty"`
	Size   int    `json:"size"`   // of each message, in bytes
	Window int    `json:"window"` // messages in flight
}

// outcome is the server's answer at the end.
type outcome struct {
	// data messages that arrived in full; bytes of a connection
	Messages int64  `json:"messages"`
	Service  string `json:"service,omitempty"` // where the server awaits a connection
	Error    string `json:"error,omitempty"`   // why the server could not go on
	Setup    *Setup `json:"setup,omitempty"`   // the server's
	// retransmitted by its NIC so far; for TCP, the kernel's count
	Again Again `json:"again,omitzero"`
}

// Setup is how a side is attached.
type Setup struct {
	Link       string `json:"link"`
	Deployment string `json:"deployment"`
}

// answerBytes is enough for every plan and every outcome.
const answerBytes = 512

// windowFor returns how many messages of a size are in flight. They keep the link busy, but need
// no more memory than the caches hold. Otherwise the measurement would be of the caches, since
// limits copy into one buffer and out of one.
func windowFor(size int) int {
	const most, bytes = 32, 3 << 20
	return min(max(bytes/max(size, 1), 2), most)
}

// manyFor reports whether messages of a size are sent many at once, and received through an
// Inbox. Short ones are.
func manyFor(size int) bool { return size <= limits.CopiedMessage }

// Client is the side with the clock.
type Client struct {
	p       *weft.Process
	server  weft.Name
	at      weft.Address // the server's address; zero before the first plan
	far     *Setup       // the server's setup, by its own account; nil before the first plan
	host    string       // the server's, for connections outside the fabric
	service string       // where the server awaits one, in this plan
	again   Again        // retransmitted by the server's side in this plan
}

// NewClient makes a client that measures between p and the process named server, which runs Serve.
func NewClient(p *weft.Process, server weft.Name) *Client {
	return &Client{p: p, server: server, host: "127.0.0.1"}
}

// measure runs one plan from its call to its outcome. run sends the data.
func (c *Client) measure(
	ctx context.Context, pl plan, run func(ctx context.Context) error,
) (outcome, time.Duration, error) {
	var ready, done outcome
	if err := c.call(ctx, tagPlan, pl, &ready); err != nil {
		return done, 0, err
	}
	c.far, c.service = ready.Setup, ready.Service
	begin := time.Now()
	if err := run(ctx); err != nil {
		return done, 0, err
	}
	err := c.call(ctx, tagStop, nil, &done)
	c.again = done.Again.since(ready.Again)
	return done, time.Since(begin), err
}

func (c *Client) call(ctx context.Context, tag weft.Tag, question any, answer *outcome) error {
	q, err := json.Marshal(question)
	if err != nil {
		return err
	}
	buf := make([]byte, answerBytes)
	m, err := c.p.Peer(c.server).Call(ctx, tag, q, buf)
	if err != nil {
		return err
	}
	c.at = m.Addr
	if err := json.Unmarshal(buf[:m.Len], answer); err != nil {
		return fmt.Errorf("bench: answer of %v: %w", c.server, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("bench: %v says: %s", c.server, answer.Error)
	}
	return nil
}
