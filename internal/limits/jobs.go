package limits

import "time"

// Jobs and machines (internal/ctl, internal/daemon).
const (
	// JobSize is how many ranks a job may have: one name in each slot of 16 NICs with MaxProcesses
	// each. RanksPerHost is how many of them one host may have: its NIC has MaxProcesses slots.
	JobSize      = 64 << 10
	RanksPerHost = MaxProcesses

	// JobHosts is how many hosts a job may have: as many as the peers of a NIC.
	JobHosts = Peers

	// PathBytes is the longest path in a request: PATH_MAX of Linux.
	PathBytes = 4096

	// JobRefusals bounds the refusals of one reservation, and JobRefusalBytes the text of each,
	// in bytes. A reply has ctl.MaxMessage bytes, so all refusals of one host fit.
	JobRefusals     = 16
	JobRefusalBytes = 1024

	// MachineNameBytes bounds the name of a machine. MachineNodes bounds its nodes: with names of
	// 40 bytes, that many fit into ctl.MaxRequest. Larger machines are for Slurm and Kubernetes.
	MachineNameBytes = 64
	MachineNodes     = 256

	// MachinesPerUser and Machines bound the definitions that a daemon keeps. They are made by
	// hand, and their file stays below 4 MiB.
	MachinesPerUser = 64
	Machines        = 1024

	// SlotsPerHost is the largest number of slots that a configuration may give a host.
	SlotsPerHost = MaxProcesses

	// JobsPerHost is how many jobs a daemon runs concurrently: each has a keeper, which is a
	// process. JobsOfUser is how many of them one user may have. Root and the user of the daemon
	// are exempt.
	JobsPerHost = 256
	JobsOfUser  = JobsPerHost / 4

	// ReservesAtOnce is how many reservations one daemon works on concurrently: each starts a
	// process. ReservesOfPeer is the same for one other NIC, and ReservesOfUser for one user of
	// this host. Root and the user of the daemon are exempt from the latter.
	ReservesAtOnce = 16
	ReservesOfPeer = ReservesAtOnce / 4
	ReservesOfUser = ReservesAtOnce / 4

	// KeeperWithin is how long a keeper may take to check a reservation: it reads the program
	// once for its hash. It is less than a NIC waits for the answer of another (4 s).
	KeeperWithin = 3 * time.Second

	// JobGrace is the default time between SIGTERM and SIGKILL, and MostJobGrace the longest that
	// a request may ask for. KeeperExtra is how much longer a keeper may take to end.
	JobGrace     = time.Second
	MostJobGrace = time.Hour
	KeeperExtra  = 2 * time.Second

	// RankStateBytes bounds a keeper's report on the state of one rank. The daemon keeps a report
	// until it is complete: 4096 ranks then take 1 MiB.
	RankStateBytes = 256

	// DeathWait is how long a daemon waits for the death of a process that has closed its
	// connection because it ends. It takes some milliseconds to free the memory of a large
	// process. On a busy host, the dying process also waits for a processor.
	DeathWait = time.Second

	// ReportWithin is how long a keeper may take to report on its ranks: it reads a few files of
	// /proc for each.
	ReportWithin = time.Second

	// KeeperLineBytes is the longest line of a keeper's standard error that the daemon logs.
	// KeeperLines is how many lines of one keeper it logs.
	KeeperLineBytes = 1024
	KeeperLines     = 64
)
