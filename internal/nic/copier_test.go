package nic

import (
	"bytes"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
)

// copyingLink is a link that copies payload itself.
type copyingLink struct {
	link.Driver
	copied int // bytes
}

func (c *copyingLink) Caps() link.Caps { return link.Caps{Copy: c.Copy} }

func (c *copyingLink) Copy(to, from []byte) { c.copied += copy(to, from) }

func TestALinkThatCopiesIsGivenThePayloadOfLongMessages(t *testing.T) {
	f := emptyFabric(t)
	own := &copyingLink{}
	f.addNIC(1, 1, fault.Config{}, func(cfg *Config) { own.Driver, cfg.Link = cfg.Link, own })
	f.addNIC(2, 1, fault.Config{})
	if err := f.engines[0].AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.until(5*time.Second, "a knows b", func() bool { return f.engines[0].peerOf(2) != nil && f.engines[0].peerOf(2).names.Synced() })
	data, buf := bytes.Repeat([]byte("payload"), 30_000), make([]byte, 210_000)
	r := b.recv("", 0, 0, buf)
	s := a.send("b/0", 0, 0, data)
	b.wantReceived(r, buf, data)
	a.wantSent(s)
	if own.copied != len(data) {
		t.Errorf("the link has copied %d bytes of a message of %d", own.copied, len(data))
	}
}
