package wire

// The first byte of a Table record is the kind of news that a NIC tells another about processes,
// NICs, groups and programs. The service to which a code belongs defines the rest of the record.
// Numbers are never reused.
const (
	TableClaim   byte = 1  // the name of a process (internal/names)
	TableEnd     byte = 2  // it has ended, or has no claim to the name
	TableSync    byte = 3  // number of records in the first table
	TableLost    byte = 4  // the home of a name says that the name belongs to another process
	TableNode    byte = 5  // there is a NIC at an address
	TableJoin    byte = 6  // a process joins a group (internal/coll)
	TableLeave   byte = 7  // it leaves the group
	TablePlace   byte = 8  // the position of the NIC on a torus
	TableAsk     byte = 9  // asks the home of a name to confirm a claim
	TableAnswer  byte = 10 // the answer of the home
	TableProgram byte = 11 // a program is loaded, or is gone (internal/program)

	TableRevocation byte = 12 // a piece of a revocation list (internal/nic)
	// A newer process of a rank asks an older one for the name (internal/names).
	TableYield byte = 13
)
