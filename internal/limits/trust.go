package limits

// Identity and authority (internal/trust).
const (
	// FabricKeys is how many fabric keys a NIC accepts at once: an overlap needs two, and a second
	// rotation may begin before the first has ended everywhere.
	FabricKeys = 4

	// CertificateAuthorities is how many a NIC believes: the old and the new one, for two sites.
	CertificateAuthorities = 4

	// CertificateBytes bounds a certificate. It travels in a handshake message, which must fit into
	// the smallest frame of 1,280 bytes beside the keys and the Hello.
	CertificateBytes = 640

	// RevocationBytes bounds a revocation list: it goes from NIC to NIC in pieces. It holds about
	// 2,000 serial numbers.
	RevocationBytes = 16 << 10

	// ArrivingLists is how many revocation lists one NIC takes in concurrently, from all peers:
	// their pieces gather in 1 MiB at most.
	ArrivingLists = 64

	// UserNameBytes bounds the name of a user. useradd allows 32 bytes; directories allow more.
	UserNameBytes = 64

	// UsersPerRole is how many users a role may list: the count is one byte in a certificate.
	UsersPerRole = 255

	// PatternBytes bounds a pattern for names of applications. A name has NameBytes; a class such
	// as [a-z] takes more.
	PatternBytes = 48

	// Patterns is how many patterns a certificate may hold: the count is one byte.
	Patterns = 255

	// ControlWaiting is how many requests of one NIC wait at the control process of another, and
	// ControlWaitingAll how many of all NICs. Each has ctl.MaxRequest bytes at most, so that they
	// take 4 MiB.
	ControlWaiting    = 32
	ControlWaitingAll = 256

	// ControlApart is how many requests of other NICs wait for keepers beside those that are served. Each
	// has a reply of ctl.MaxMessage bytes at most, so that they take 4 MiB together.
	ControlApart = 64
)
