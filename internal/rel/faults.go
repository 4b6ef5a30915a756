package rel

// Faults are the three hooks of the usNIC code with which a test makes things go wrong inside the module. Each is asked
// once per occasion and answers whether this one fails; nil never fails.
type Faults struct {
	DropReceived func() bool // a frame that arrived is thrown away unseen
	FailAck      func() bool // an ACK that was due is not sent, though the module believes so
	FailResend   func() bool // a retransmission is not sent, though the module believes so
}

// hit asks one hook.
func hit(hook func() bool) bool { return hook != nil && hook() }
