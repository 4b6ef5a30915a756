// Package bench measures what Weft carries between two processes: the work behind `weft bench`.
//
//	client                                  server
//	  │ ─── Call: plan (kind, size) ────────► │ posts its receives
//	  │ ◄────────────────── Reply: ready ──── │
//	  │ ─── data ───────────────────────────► │
//	  │ ◄────────────── data (latency only) ─ │
//	  │      … until the time is over …       │
//	  │ ─── Call: stop ─────────────────────► │ comes after all the data, since messages keep their order
//	  │ ◄──────────── Reply: how many came ── │
//
// The client has the clock. A rate or a bandwidth counts what has arrived, over the time from the first message until
// the answer to stop.
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

// Sizes are those of --size all, in bytes: powers of four, as far as OSU's go.
func Sizes() []int {
	return []int{1, 4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}
}

// The names of the two processes.
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

// plan is what the client asks the server to take part in.
type plan struct {
	Echo      bool   `json:"echo"`                // every message is sent back
	Datagrams bool   `json:"datagrams,omitempty"` // they are datagrams
	Over      string `json:"over,omitempty"`      // they are bytes of a connection: overStream or overTCP
	Size      int    `json:"size"`                // of each message, in bytes
	Window    int    `json:"window"`              // messages under way at a time
}

// outcome is what the server answers in the end.
type outcome struct {
	Messages int64  `json:"messages"`          // data that has arrived, each of the size planned; bytes of a connection
	Service  string `json:"service,omitempty"` // where a connection is awaited
	Error    string `json:"error,omitempty"`   // why the server could not go on
	Setup    *Setup `json:"setup,omitempty"`   // the server's
	Again    Again  `json:"again,omitzero"`    // what its NIC has sent again so far; of a connection by TCP, what the kernel has for that
}

// Setup is how a side is attached.
type Setup struct {
	Link       string `json:"link"`
	Deployment string `json:"deployment"`
}

// answerBytes holds every plan and every outcome.
const answerBytes = 512

// windowFor is how many messages of a size are under way at a time: enough to keep the link busy, and not more memory
// than caches hold, or it would be them that are measured: limits copy into one buffer and out of one.
func windowFor(size int) int {
	const most, bytes = 32, 3 << 20
	return min(max(bytes/max(size, 1), 2), most)
}

// manyFor reports whether messages of a size go many at a time, and are taken out of an Inbox: short ones.
func manyFor(size int) bool { return size <= limits.CopiedMessage }

// Client is the side with the clock.
type Client struct {
	p       *weft.Process
	server  weft.Name
	at      weft.Address // where the server is; zero before the first plan
	far     *Setup       // what the server has said of itself; nil before the first plan
	host    string       // the server's, for connections beside the fabric
	service string       // where it awaits one; of this plan
	again   Again        // what the server's side has sent again in this plan
}

// NewClient makes a client that measures between p and the process named server, which runs Serve.
func NewClient(p *weft.Process, server weft.Name) *Client {
	return &Client{p: p, server: server, host: "127.0.0.1"}
}

// measure runs one plan from its call to its outcome. run sends the data.
func (c *Client) measure(ctx context.Context, pl plan, run func(ctx context.Context) error) (outcome, time.Duration, error) {
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
