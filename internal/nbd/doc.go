// Package nbd serves a device to clients of the Network Block Device protocol: the Linux kernel,
// qemu, libnbd, fio.
//
//	client                                            server
//	  ◄─ NBDMAGIC IHAVEOPT flags ─────────────────────
//	  ── flags ──────────────────────────────────────►        the handshake: fixed newstyle
//	  ── IHAVEOPT option length data ────────────────►        negotiate.go
//	  ◄─ magic option reply length data ──────────────
//	  …  until EXPORT_NAME or GO
//	  ── magic flags command cookie offset length ───►        transmission: conn.go, command.go
//	  ── data of a WRITE ────────────────────────────►
//	  ◄─ magic error cookie ──────────────────────────        a simple reply
//	  ◄─ magic flags type cookie length payload ──────        or a chunk of a structured one
//
// Several requests of a connection may be in flight. They are answered in the order in which they
// end. Several connections may use the device concurrently. All numbers are big-endian.
package nbd
