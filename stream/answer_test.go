package stream

import (
	"testing"

	"github.com/weftnet/weft"
)

// Only the dialled process may answer a dial, although another process may know the number of the
// stream.
func TestAnAnswerOfAProcessThatWasNotDialledIsNotTaken(t *testing.T) {
	server, client := onSwitch(t)
	h, err := hostOf(client)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	c := h.newConn(Addr{Process: client.Name()}, Addr{server.Name(), "service"}, newConfig(-1, 0))
	h.mu.Unlock()
	defer h.forget(c)
	for k := kindAccept; k <= kindPong; k++ {
		if m := (message{kind: k, sender: 77, offset: readBuffer}); c.take(weft.Name{App: "other"}, weft.Address{NIC: 99, Slot: 1}, &m) || c.state != stateDialling {
			t.Errorf("an answer of kind %d was taken, and the stream is in state %d", k, c.state)
		}
	}
	if !c.take(server.Name(), server.Address(), &message{kind: kindAccept, sender: 77, offset: readBuffer}) || c.state != stateOpen {
		t.Errorf("the answer of the process that was dialled was not taken: state %d", c.state)
	}
}
