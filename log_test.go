package weft

import (
	"strings"
	"testing"
)

// A program that embeds its NIC gets the same information about its link that a daemon logs.
func TestTheLinkExplainsItselfToWhoeverEmbedsANIC(t *testing.T) {
	said := make(chan string, 1)
	c := Config{Log: SaidLog(func(text string) { said <- text })}
	n, err := OpenNIC(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if got := <-said; !strings.HasPrefix(got, "link: ") || !strings.Contains(got, "MTU ") || !strings.Contains(got, "receive buffer ") {
		t.Errorf("the link says %q", got)
	}

	held := make(chan struct{})
	c.Log = SaidLog(func(text string) { <-held; said <- text })
	c.later()("another way") // must not wait for the log
	close(held)
	if got := <-said; got != "link: another way" {
		t.Errorf("the link says %q later", got)
	}
	if (&Config{}).later() != nil {
		t.Error("without a log there is a function that tells it something")
	}
}
