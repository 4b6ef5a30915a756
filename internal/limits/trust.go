package limits

// Identity and authority (internal/trust).
const (
	// FabricKeys is how many fabric keys a NIC accepts concurrently: an overlap needs two, and a
	// second rotation may begin before the first has ended everywhere.
	FabricKeys = 4

	// CertificateAuthorities is how many authorities a NIC trusts: the old and the new one, for
	// two sites.
	CertificateAuthorities = 4

	// CertificateBytes bounds a certificate. It travels in a handshake message, which must fit
	// into the smallest frame of 1,280 bytes together with the keys and the Hello.
	CertificateBytes = 640

	// RevocationBytes bounds a revocation list, which goes from NIC to NIC in pieces. It holds
	// about 2,000 serial numbers.
	RevocationBytes = 16 << 10

	// ArrivingLists is how many revocation lists one NIC receives concurrently, from all peers:
	// their pieces take 1 MiB at most.
	ArrivingLists = 64

	// UserNameBytes bounds the name of a user. useradd allows 32 bytes; directories allow more.
	UserNameBytes = 64

	// UsersPerRole is how many users a role may list: the count is one byte in a certificate.
	UsersPerRole = 255

	// PatternBytes bounds a pattern for names of applications. A name has at most NameBytes; a
	// class such as [a-z] takes more.
	PatternBytes = 48

	// Patterns is how many patterns a certificate may hold: the count is one byte.
	Patterns = 255

	// ControlWaiting is how many requests of one NIC wait at the control process of another.
	// ControlWaitingAll is the same for all NICs together. Each request has at most
	// ctl.MaxRequest bytes, so together they take 4 MiB.
	ControlWaiting    = 32
	ControlWaitingAll = 256

	// ControlApart is how many requests of other NICs wait for keepers, apart from those that are
	// being served. Each has a reply of at most ctl.MaxMessage bytes, so together they take 4
	// MiB.
	ControlApart = 64
)
