package launch

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// A NIC whose daemon is killed sends nothing, so other hosts notice its end only by its silence.
// The keeper of that host outlives the daemon for the grace, and so does the launcher. They
// bypass the NICs with notices, which are datagrams of a fixed length. Numbers are little-endian:
//
//	"weft" 4 │ version 1 │ kind 1 │ host 2 │ job 4 │ restart 4 │ HMAC-SHA256 of all before it 32
//
//	keeper                              launcher
//	       ── hello ────────────────►   it learns the keeper's address
//	       ◄───────────── hello + ack ─
//	       ── daemon gone ──────────►   the host is lost
//	       ◄── launcher gone ────────   the keeper ends its ranks
//
// The sender repeats a notice until it is acknowledged, at most noticeTries times. The facts are
// final, so a replay changes nothing. If no notice arrives, the silence of the NIC shows the same
// later.
const (
	noticeVersion  = 1
	noticeMACAt    = 16
	noticeBytes    = noticeMACAt + sha256.Size
	noticeKeyBytes = 32
)

type noticeKind byte

const (
	noticeHello        noticeKind = 1
	noticeDaemonGone   noticeKind = 2
	noticeLauncherGone noticeKind = 3
	noticeAck          noticeKind = 0x80 // combined with the acknowledged kind
)

// A notice is sent noticeTries times. The pause after each try is twice the pause before: 150 ms in
// total.
const (
	noticeTries = 4
	noticePause = 10 * time.Millisecond
)

// Datagrams carries notices between a launcher and the keepers of its job, without the NICs. Send
// and Receive may be called concurrently.
type Datagrams interface {
	// Send sends a datagram. It does not wait. A keeper's socket sends to the launcher only, and
	// ignores the address.
	Send(to netip.AddrPort, b []byte) error

	// Receive waits for a datagram, and cuts it to the length of b.
	Receive(ctx context.Context, b []byte) (n int, from netip.AddrPort, err error)

	Close() error
}

// NoticePort is the port and the key for notices to a launcher. It is part of a Start.
type NoticePort struct {
	Port uint16 `json:"port"`
	Key  []byte `json:"key"` // 32 random bytes, which the ranks do not get
}

// Notices is the launcher's side of the datagrams without the NICs. Run closes Datagrams.
type Notices struct {
	NoticePort
	Datagrams Datagrams
}

// check reports whether a launcher can offer this port, or none.
func (n *NoticePort) check() bool { return n == nil || n.Port != 0 && len(n.Key) == noticeKeyBytes }

// notice is one datagram.
type notice struct {
	kind    noticeKind
	host    int
	restart int
}

// seal returns the datagram of a notice.
func (n notice) seal(job string, key []byte) []byte {
	b := make([]byte, 0, noticeBytes)
	b = append(b, "weft"...)
	b = append(b, noticeVersion, byte(n.kind))
	b = binary.LittleEndian.AppendUint16(b, uint16(n.host))
	b = binary.LittleEndian.AppendUint32(b, jobNumber(job))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.restart))
	return noticeMAC(b, key).Sum(b)
}

// openNotice reads a datagram. It reports false unless a process of the job has sealed it.
func openNotice(b []byte, job string, key []byte) (n notice, ok bool) {
	if len(b) != noticeBytes || string(b[:4]) != "weft" || b[4] != noticeVersion ||
		binary.LittleEndian.Uint32(b[8:]) != jobNumber(job) {
		return n, false
	}
	if !hmac.Equal(noticeMAC(b[:noticeMACAt], key).Sum(nil), b[noticeMACAt:]) {
		return n, false
	}
	n = notice{noticeKind(b[5]), int(binary.LittleEndian.Uint16(b[6:])), int(binary.LittleEndian.Uint32(b[12:]))}
	return n, n.host < limits.JobHosts
}

func noticeMAC(b, key []byte) interface{ Sum([]byte) []byte } {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("weft job notice\x00"))
	h.Write(b)
	return h
}

// jobNumber returns the random bits in the name of a job.
func jobNumber(job string) uint32 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(job, "job-"), 16, 32) // ctl checks the name
	return uint32(n)
}
