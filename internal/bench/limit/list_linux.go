package limit

// program is the implementation of a limit: one function per role. Role 0 measures. In a limit
// over a network, the first half of the roles are on host 0, the second half on host 1.
type program struct {
	Limit
	roles []func(*child) error
	// of the roles, as indices into the processors that we may use; nil: each role has its own
	cpus []int
}

var (
	sameCore  = []int{0, 0}
	coreAHost = []int{0, 0, 1, 1}
)

// programs holds all limits, in the order in which they are measured.
var programs []program

// init fills the list, since its functions themselves look for limits.
func init() {
	small, bulk := []int{64}, []int{1 << 20}
	add := func(name, what string, kind Kind, sizes []int, roles ...func(*child) error) *program {
		programs = append(programs, program{Limit: Limit{Name: name, What: what, Kind: kind, Sizes: sizes},
			roles: roles})
		return &programs[len(programs)-1]
	}
	veth := func(name, what string, kind Kind, sizes []int, roles ...func(*child) error) *program {
		p := add(name, what, kind, sizes, roles...)
		p.Veth = true
		return p
	}

	seals := func(p *program) { p.Sealed = true }

	add("line", "one cache line each way, busy", Latency, small, linePing, linePong)
	add("copy", "the message copied in and out each way, busy", Latency, small, copyPing, copyPong)
	add("futex", "a futex put to sleep and woken, two cores", Latency, []int{8}, futexPing(0), futexPong(0))
	add("futex-same", "the same, one core", Latency, []int{8}, futexPing(0), futexPong(0)).cpus = sameCore
	add("futex-2000", "2,000 polls, then a futex", Latency, []int{8}, futexPing(2000), futexPong(2000))
	add("futex-20000", "20,000 polls, then a futex", Latency, []int{8}, futexPing(20000), futexPong(20000))
	add("eventfd", "an eventfd read and written, two cores", Latency, []int{8}, eventPing, eventPong)
	add("yield", "sched_yield between two looks, two cores", Latency, []int{8}, yieldPing, yieldPong)
	add("yield-same", "the same, one core", Latency, []int{8}, yieldPing, yieldPong).cpus = sameCore

	add("ring", "ring of one producer, each message published", Rate, small, ringTake(ringSlots), ringPut(ringSlots))
	add("ring-deep", "the same, with room for 65,536 messages instead of 2,048", Rate, small, ringTake(deepSlots),
		ringPut(deepSlots))
	add("stream", "copied into shared memory and out of it", Bandwidth, bulk, streamTake, streamPut)
	add("memcpy", "copied within one process", Bandwidth, []int{4 << 10, 64 << 10, 1 << 20, 64 << 20}, memcpy)

	veth("udp", "UDP, non-blocking and busy", Latency, small, pings(udpFor(busy), busy), pongs(udpFor(busy), busy))
	veth("udp-yield", "UDP, sched_yield between two looks", Latency, small, pings(udpFor(yielding), yielding),
		pongs(udpFor(yielding), yielding))
	veth("udp-block", "UDP, blocking", Latency, small, pings(udpFor(blocking), blocking),
		pongs(udpFor(blocking), blocking))
	veth("udp-rate", "UDP segments of the message's size, as many a call as fit (GSO, GRO)", Rate, small,
		byUDP(udpTake), byUDP(udpGSO))
	veth("udp-bandwidth", "UDP, full frames, as many a call as fit (GSO, GRO)", Bandwidth, bulk, byUDP(udpTake),
		byUDP(udpGSO))
	veth("udp-single", "UDP, one datagram a call", Rate, small, byUDP(udpTake), byUDP(udpSingle))
	veth("udp-single-full", "UDP, one full frame a call", Bandwidth, []int{1472}, byUDP(udpTake), byUDP(udpSingle))
	veth("udp-mmsg", "UDP, 64 datagrams a call (sendmmsg)", Rate, small, byUDP(udpTake), byUDP(udpMany))
	seals(veth("udp-sealed", "UDP, non-blocking and busy, sealed", Latency, small, pings(sealedUDP(busy), busy),
		pongs(sealedUDP(busy), busy)))
	seals(veth("udp-rate-sealed", "UDP as udp-rate, each message sealed", Rate, small, byUDP(udpSealedTake),
		byUDP(udpSealedPut)))
	seals(veth("udp-bandwidth-sealed", "UDP as udp-bandwidth, each frame sealed", Bandwidth, bulk, byUDP(udpSealedTake),
		byUDP(udpSealedPut)))
	veth("tcp", "TCP", Bandwidth, bulk, tcpTake, tcpPut)

	veth("xdp", "AF_XDP", Latency, []int{64, 1400}, pings(newXDP, busy), pongs(newXDP, busy))
	veth("xdp-rate", "AF_XDP, one way", Rate, small, xdpTake, xdpPut)
	veth("xdp-bandwidth", "AF_XDP, one way, full frames", Bandwidth, bulk, xdpTake, xdpPut)
	seals(veth("xdp-sealed", "AF_XDP, sealed", Latency, []int{64, 1400}, pings(sealed(newXDP), busy),
		pongs(sealed(newXDP), busy)))
	seals(veth("xdp-rate-sealed", "AF_XDP, one way, each message sealed", Rate, small, xdpSealedTake, xdpSealedPut))
	seals(veth("xdp-bandwidth-sealed", "AF_XDP, one way, full frames, each sealed", Bandwidth, bulk, xdpSealedTake,
		xdpSealedPut))
	veth("xdptx", "AF_XDP, answered by XDP_TX in the far driver", Latency, small, pings(newXDP, busy), xdpEcho)
	veth("xdptx-udp", "UDP, busy, answered by XDP_TX in the far driver", Latency, small, pings(udpWithoutSum, busy),
		xdpEcho)
	veth("udp-bandwidth-xdp", "UDP as above, an XDP program on the receiving end", Bandwidth, bulk,
		beside(byUDP(udpTake)), byUDP(udpGSO))
	veth("tcp-xdp", "TCP, an XDP program on the receiving end", Bandwidth, bulk, beside(tcpTake), tcpPut)

	add("seal", "AES-128-GCM, seal", Latency, []int{64, 1400, 8192}, seal)
	add("open", "AES-128-GCM, open", Latency, []int{64, 1400, 8192}, open)
	add("fault", "userfaultfd, a page of 4 KiB, a blocking handler on another core", Latency, []int{4096}, faultTake,
		faultServe(false))
	add("fault-spin", "the same, the handler spins", Latency, []int{4096}, faultTake, faultServe(true))
	add("fault-same", "the same, a blocking handler on the same core", Latency, []int{4096}, faultTake,
		faultServe(false)).cpus = sameCore

	chain := func(name, what string, w waiting, wire func(*child) (wire, error)) *program {
		p := veth(name, "process, relay, relay, process, "+what, Latency, small, chainFirst(w), chainRelay(w, 0, wire),
			chainRelay(w, 1, wire), chainLast(w))
		p.cpus = coreAHost
		return p
	}
	chain("chain-spin", "over UDP, all spin", busy, newUDP)
	chain("chain-yield", "over UDP, all yield", yielding, newUDP)
	chain("chain", "over UDP, all yield and then block", yieldThenBlock, newUDP)
	chain("chain-block", "over UDP, all block", blocking, newUDP)
	add("chain-shm", "process, relay, process over shared memory, all yield and then block", Latency, small,
		// with two processors, the two processes share one: that is fastest
		chainFirst(yieldThenBlock), chainMiddle(yieldThenBlock), chainLast(yieldThenBlock))
	chain("chain-xdp", "over AF_XDP, all yield and then block", yieldThenBlock, newXDP)
	seals(chain("chain-sealed", "over UDP, sealed between the relays, all yield and then block", yieldThenBlock,
		sealed(newUDP)))
	seals(chain("chain-xdp-sealed", "over AF_XDP, sealed between the relays, all yield and then block", yieldThenBlock,
		sealed(newXDP)))
}

// All lists the limits.
func All() (ls []Limit) {
	for _, p := range programs {
		ls = append(ls, p.Limit)
	}
	return ls
}

func find(name string) *program {
	for i := range programs {
		if programs[i].Name == name {
			return &programs[i]
		}
	}
	return nil
}
