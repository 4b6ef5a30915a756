package gopeer

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	wgconn "golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// Unchanged kernel sockets go through a tunnel of wireguard-go:
//
//	client ── socket ── [wg0] ── device ══ UDP, encrypted ══ device ── [wg0] ── socket ── server
//	└────────────── one process ───────┘                     └──────── one process ────────────┘
//
// The devices run in userspace, one in each process. Each makes its interface in the network
// namespace of its process.
func init() {
	const how = "a TUN device of each host, ChaCha20-Poly1305"
	tcp := overTCP(cubic)
	all = append(all,
		&Peer{Name: "wireguard-go, TCP", Kind: "wireguard-tcp", Most: maxSize, Measures: everything, Clean: true,
			Sealed: true, Tunnel: true,
			needs: haveTunnels, serve: serveInTunnel(serveStreams(tcp)), dial: dialInTunnel(dialStream(tcp)),
			Notes: map[string]string{contest.Latency: how + "; congestion control cubic", contest.Rate: how,
				contest.Bandwidth: how + "; congestion control cubic"}},
		&Peer{Name: "wireguard-go, UDP", Kind: "wireguard-udp", Most: 16 << 10,
			Measures: []string{contest.Latency, contest.Rate}, Clean: true, Sealed: true, Tunnel: true,
			needs: haveTunnels, serve: serveInTunnel(serveUDP), dial: dialInTunnel(dialUDP),
			Notes: map[string]string{contest.Latency: how,
				contest.Rate: how + "; counts datagrams that arrive, the rest is lost"}})
}

const (
	tunnelDevice = "wg0"

	// tunnelServer and tunnelClient are the addresses inside the tunnel. RFC 2544 reserves this
	// block for benchmarks.
	tunnelServer = "198.18.0.1"
	tunnelClient = "198.18.0.2"
	tunnelBits   = 30

	tunControl = "/dev/net/tun"
)

// haveTunnels returns an error if this process cannot make TUN devices.
func haveTunnels() error {
	f, err := os.OpenFile(tunControl, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("no TUN devices: %w (needs root and the kernel module tun)", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return haveTCP(cubic)()
}

// invitation is what the client needs to reach the server through the tunnel.
type invitation struct {
	endpoint  netip.AddrPort // of the server's device, outside the tunnel
	serverKey string         // the public key of the server's device, in hexadecimal
	clientKey string         // the private key of the client's device, in hexadecimal
	inside    string         // the server's address inside the tunnel
}

// String returns the invitation as one word, for a command line. Other users of this machine can
// read it there. The tunnel carries messages of a benchmark, and lives for seconds.
func (i *invitation) String() string {
	return strings.Join([]string{i.endpoint.String(), i.serverKey, i.clientKey, i.inside}, ",")
}

// parseInvitation parses the text of String.
func parseInvitation(word string) (*invitation, error) {
	f := strings.Split(word, ",")
	if len(f) != 4 {
		return nil, fmt.Errorf("invitation %q: expected an endpoint, two keys and an address, with commas between them",
			word)
	}
	endpoint, err := netip.ParseAddrPort(f[0])
	if err != nil {
		return nil, fmt.Errorf("invitation %q: %w", word, err)
	}
	if err := ownHost(endpoint.Addr()); err != nil {
		return nil, err
	}
	for _, key := range f[1:3] {
		if b, err := hex.DecodeString(key); err != nil || len(b) != device.NoisePublicKeySize {
			return nil, fmt.Errorf("invitation %q: key %q: expected %d bytes in hexadecimal",
				word, key, device.NoisePublicKeySize)
		}
	}
	return &invitation{endpoint, f[1], f[2], f[3]}, nil
}

// ownHost refuses loopback addresses. Two processes on one host would both make the same device and
// the same address, and would change the network of the machine.
func ownHost(addr netip.Addr) error {
	if addr.IsLoopback() {
		return fmt.Errorf("a tunnel at %s: expected the address of a host in a network namespace of its own", addr)
	}
	return nil
}

// serveInTunnel opens the server's end of a tunnel and serves inside it. It passes the
// invitation to ready as the address.
func serveInTunnel(
	serve func(context.Context, string, func(string) error) error,
) func(context.Context, string, func(string) error) error {
	return func(ctx context.Context, addr string, ready func(string) error) error {
		outside, err := netip.ParseAddr(addr)
		if err != nil {
			return err
		}
		if err := ownHost(outside); err != nil {
			return err
		}
		server, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		client, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		d, err := openTunnel(tunnelServer, privateHex(server), publicHex(client), tunnelClient, netip.AddrPort{})
		if err != nil {
			return err
		}
		defer d.Close()
		port, err := listenPort(d)
		if err != nil {
			return err
		}
		return serve(ctx, tunnelServer, func(inside string) error {
			i := invitation{netip.AddrPortFrom(outside, port), publicHex(server), privateHex(client), inside}
			return ready(i.String())
		})
	}
}

func privateHex(k *ecdh.PrivateKey) string { return hex.EncodeToString(k.Bytes()) }

func publicHex(k *ecdh.PrivateKey) string { return hex.EncodeToString(k.PublicKey().Bytes()) }

// dialInTunnel opens the client's end of a tunnel and dials inside it.
func dialInTunnel(dial func(context.Context, string) (conn, error)) func(context.Context, string) (conn, error) {
	return func(ctx context.Context, word string) (conn, error) {
		i, err := parseInvitation(word)
		if err != nil {
			return nil, err
		}
		d, err := openTunnel(tunnelClient, i.clientKey, i.serverKey, tunnelServer, i.endpoint)
		if err != nil {
			return nil, err
		}
		c, err := dial(ctx, i.inside)
		if err != nil {
			d.Close()
			return nil, fmt.Errorf("inside the tunnel: %w", err)
		}
		return &tunnelled{c, d}, nil
	}
}

// tunnelled is a conn through a tunnel.
type tunnelled struct {
	conn
	device *device.Device
}

func (t *tunnelled) close() error {
	err := t.conn.close()
	t.device.Close()
	return err
}

// openTunnel makes a device with the address own, for packets to and from the address peer.
// Without an endpoint, the device waits until its peer calls. The interface is removed when the
// device is closed, or when this process ends.
func openTunnel(own, privateKey, peerKey, peer string, endpoint netip.AddrPort) (*device.Device, error) {
	t, err := tun.CreateTUN(tunnelDevice, device.DefaultMTU)
	if err != nil {
		return nil, fmt.Errorf("making the TUN device %s: %w", tunnelDevice, err)
	}
	d := device.NewDevice(t, wgconn.NewDefaultBind(), device.NewLogger(device.LogLevelError, tunnelDevice+": "))
	config := fmt.Sprintf("private_key=%s\nreplace_peers=true\npublic_key=%s\nallowed_ip=%s/32\n",
		privateKey, peerKey, peer)
	if endpoint.IsValid() {
		config += fmt.Sprintf("endpoint=%s\n", endpoint)
	}
	if err := errors.Join(d.IpcSet(config), addAddress(own), d.Up()); err != nil {
		d.Close()
		return nil, fmt.Errorf("setting up the tunnel's device %s: %w", tunnelDevice, err)
	}
	return d, nil
}

// addAddress gives the tunnel's interface its address and sets it up.
func addAddress(addr string) error {
	link, err := netlink.LinkByName(tunnelDevice)
	if err != nil {
		return err
	}
	a := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(addr), Mask: net.CIDRMask(tunnelBits, 32)}}
	return errors.Join(netlink.AddrAdd(link, a), netlink.LinkSetUp(link))
}

// listenPort returns the UDP port that a device has bound.
func listenPort(d *device.Device) (uint16, error) {
	state, err := d.IpcGet()
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(state, "\n") {
		var port uint16
		if n, _ := fmt.Sscanf(line, "listen_port=%d", &port); n == 1 && port > 0 {
			return port, nil
		}
	}
	return 0, errors.New("the tunnel's device tells no listen_port")
}
