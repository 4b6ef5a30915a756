package weft_test

import (
	"encoding/json"
	"testing"

	"github.com/weftnet/weft"
)

// An Event about a NIC has no name. A Message has no name if the sender's name is not known here.
func TestWhatWasWrittenWithoutANameCanBeReadAgain(t *testing.T) {
	for _, from := range []weft.Name{{}, {App: "any"}, {App: "a", Index: 3}} {
		text, err := json.Marshal(weft.Message{From: from, Addr: weft.Address{NIC: 1}, Tag: 7})
		if err != nil {
			t.Fatal(err)
		}
		var m weft.Message
		if err := json.Unmarshal(text, &m); err != nil || m.From != from || m.Tag != 7 {
			t.Errorf("%s is read as from %v with tag %d, %v; expected from %v with tag 7", text, m.From, m.Tag, err, from)
		}
	}
}
