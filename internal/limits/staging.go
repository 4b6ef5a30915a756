package limits

import "time"

// Staging of programs (internal/stage).
const (
	// StagedChunkBytes is the length of the chunks in which a staged file travels. A chunk is
	// long enough to fill a link, and short enough that a host soon has one to pass on. A file
	// that would have more than StagedChunks of these uses chunks of LongChunkBytes.
	StagedChunkBytes = 256 << 10
	LongChunkBytes   = 1 << 20

	// StagedChunks is the largest number of chunks. Their hashes take 32 KiB, so the plan fits
	// into one message from a launcher to a keeper, which has 64 KiB.
	StagedChunks = 1024

	// StagedFileBytes is the longest file that can be staged.
	StagedFileBytes = StagedChunks * LongChunkBytes

	// StagedCacheBytes is how many bytes of staged files one user's cache on one host keeps. A
	// new file evicts the least recently used files.
	StagedCacheBytes = 4 << 30

	// StagedWindow is the number of chunks that one host requests concurrently, so that the next
	// chunk is in flight while one is checked.
	StagedWindow = 4

	// StagedCalls is the number of requests that one process answers concurrently: those of two
	// children, and of some hosts that have lost their parents. Together they hold 16 MiB, or 64
	// MiB of a long file.
	StagedCalls = 64

	// StagedPatience is the time after which a host asks the launcher for a chunk that its parent
	// has not sent. A parent that waits for its own parent has noticed a loss long before.
	StagedPatience = 15 * time.Second

	// StagedChain is the largest number of hosts that pass a file on one by one. Every host of the
	// chain then sends the file once. A longer chain would wait for its slowest host too often.
	StagedChain = 32

	// StagedChainShare is the number of chunks for each host of a chain: the last host of a chain
	// gets the first chunk late, by at most this part of the whole time.
	StagedChainShare = 4

	// StagedPlanBytes is the longest message that describes a staged file: the hashes of the
	// longest file, in base 64, and some more.
	StagedPlanBytes = 60 << 10

	// StagedName is the longest name of a staged file, in bytes. File systems allow 255.
	StagedName = 128

	// StagedDraftAge is the age at which an unfinished file in a cache counts as left behind by a
	// process that died.
	StagedDraftAge = 24 * time.Hour
)
