package limits

import "time"

// Servers for clients of other protocols: the proxy (internal/proxy) and the block device
// (internal/nbd).
const (
	// Newcomers bounds the clients of a proxy that have not finished their request. A handshake
	// over a LAN takes milliseconds, so an honest client finishes before as many others arrive.
	Newcomers = 256

	// HandshakeWithin is the time for the handshake of a client of a proxy or a block device: tens
	// of round trips over any network, retransmissions included.
	HandshakeWithin = 5 * time.Second

	// ProxyConnections is how many connections a proxy carries by default: each has two sockets and
	// two buffers of 32 KiB, so together they take 256 MiB. MostProxyConnections is the largest
	// setting: one address has as many ports.
	ProxyConnections     = 4096
	MostProxyConnections = 1 << 16

	// ProxyDial bounds a dial of a proxy to a process that does not answer. A dial that takes
	// longer may be overtaken by later ones of the same source.
	ProxyDial = 10 * time.Second

	// NBDNewcomers bounds the clients of a block device that have not finished their handshake.
	// NBDClients is the default number of clients, and MostNBDClients the largest setting: each
	// client costs a thread.
	NBDNewcomers   = 64
	NBDClients     = 64
	MostNBDClients = 4096

	// PEMFileBytes is the largest private key file: keys take some KiB.
	PEMFileBytes = 1 << 20

	// PasswordFileBytes is the largest password file of a proxy: some ten thousand users.
	PasswordFileBytes = 1 << 20

	// PasswordCost is the cost of the hashes that weft makes: some 50 ms of one core. A proxy
	// accepts costs from LeastPasswordCost to MostPasswordCost. Weaker hashes in a stolen file
	// are soon guessed; the highest cost takes about a second.
	PasswordCost      = 10
	LeastPasswordCost = 10
	MostPasswordCost  = 14

	// PasswordChecks is how many passwords a proxy checks concurrently: guessing takes one core
	// at most. PasswordsWaiting is how many clients may wait for a check. At the least cost, the
	// last of them waits two seconds.
	PasswordChecks   = 1
	PasswordsWaiting = 32

	// PasswordTries is how many wrong passwords one source may try at once; one more is added every
	// PasswordEvery. A person who mistypes needs a few. PasswordSources is how many sources a proxy
	// remembers.
	PasswordTries   = 8
	PasswordEvery   = time.Second
	PasswordSources = 1024
)
