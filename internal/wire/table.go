package wire

// The first byte of a Table record says what a NIC tells another of processes, NICs, groups and programs. The service that a code belongs to
// draws the rest of the record. Numbers are never used again.
const (
	TableClaim   byte = 1  // a process has a name (internal/names)
	TableEnd     byte = 2  // it has ended, or has no claim to the name
	TableSync    byte = 3  // how many records the first table has
	TableLost    byte = 4  // the home of a name says that it belongs to another process
	TableNode    byte = 5  // there is a NIC at an address
	TableJoin    byte = 6  // a process joins a group (internal/coll)
	TableLeave   byte = 7  // it leaves the group
	TablePlace   byte = 8  // where on a torus the NIC is
	TableAsk     byte = 9  // asks the home of a name to confirm a claim
	TableAnswer  byte = 10 // what the home says
	TableProgram byte = 11 // a program is loaded, or has gone (internal/program)

	TableRevocation byte = 12 // a piece of a revocation list (internal/nic)
	TableYield      byte = 13 // a newer process of a rank asks an older one for the name (internal/names)
)
