module github.com/weftnet/weft/bench/peers

go 1.26.0

require (
	github.com/weftnet/weft v0.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/cilium/ebpf v0.22.0 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
)

replace github.com/weftnet/weft => ../..
