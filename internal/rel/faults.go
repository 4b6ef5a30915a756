package rel

// Faults are the three hooks of the usNIC code by which a test injects failures into the module.
// Each is asked once per occasion and returns whether this one fails; a nil hook never fails.
type Faults struct {
	DropReceived func() bool // a frame that arrived is discarded unread
	FailAck      func() bool // an ACK that was due is not sent, though the module believes so
	FailResend   func() bool // a retransmission is not sent, though the module believes so
}

// hit asks one hook.
func hit(hook func() bool) bool { return hook != nil && hook() }
