package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
)

var (
	errProtocol = errors.New("nbd: the client breaks the protocol")
	errAborted  = errors.New("nbd: the client goes without using the device")
)

// maxOption is the maximum length of an option's data. Data of up to maxSkipped bytes is skipped,
// and longer data ends the connection.
const (
	maxOption  = 64 << 10
	maxSkipped = 1 << 20
)

// negotiate runs the handshake. It returns nil when the client is a user of the device.
func (n *conn) negotiate() error {
	var hello [18]byte
	be := binary.BigEndian
	be.PutUint64(hello[:], magicServer)
	be.PutUint64(hello[8:], magicOption)
	be.PutUint16(hello[16:], flagFixedNewstyle|flagNoZeroes)
	if _, err := n.c.Write(hello[:]); err != nil {
		return saidNothing(err)
	}
	var b [4]byte
	if _, err := io.ReadFull(n.r, b[:]); err != nil {
		return saidNothing(err)
	}
	flags := be.Uint32(b[:])
	if flags&^(flagFixedNewstyle|flagNoZeroes) != 0 || flags&flagFixedNewstyle == 0 {
		return fmt.Errorf("%w: its flags are %#x; expected %#x or %#x", errProtocol, flags, flagFixedNewstyle,
			flagFixedNewstyle|flagNoZeroes)
	}
	n.noZeroes = flags&flagNoZeroes != 0
	for {
		o, data, err := n.option()
		if err != nil {
			return err
		}
		if begin, err := n.answer(o, data); begin || err != nil {
			return err
		}
	}
}

// saidNothing returns errAborted for the error of a client that ended the connection before its
// first byte, as a check for a live server does. Such an end is not logged.
func saidNothing(err error) error {
	if err == io.EOF || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return errAborted
	}
	return err
}

// option reads an option. If the data is too long, option skips it and answers with an error.
func (n *conn) option() (option, []byte, error) {
	var b [16]byte
	be := binary.BigEndian
	for {
		if _, err := io.ReadFull(n.r, b[:]); err != nil {
			return 0, nil, err
		}
		if m := be.Uint64(b[:]); m != magicOption {
			return 0, nil, fmt.Errorf("%w: an option begins with %#x, expected %#x", errProtocol, m,
				uint64(magicOption))
		}
		o, length := option(be.Uint32(b[8:])), be.Uint32(b[12:])
		switch {
		case length <= maxOption:
			data := make([]byte, length)
			_, err := io.ReadFull(n.r, data)
			return o, data, err
		case length > maxSkipped || o == optExportName: // EXPORT_NAME has no answer for an error
			return 0, nil, fmt.Errorf("%w: option %d has %d bytes, at most %d", errProtocol, o, length, maxOption)
		}
		if _, err := io.CopyN(io.Discard, n.r, int64(length)); err != nil {
			return 0, nil, err
		}
		if err := n.reply(o, repErrTooBig,
			fmt.Appendf(nil, "%d bytes; at most %d are looked at", length, maxOption)); err != nil {
			return 0, nil, err
		}
	}
}

// answer answers an option. It reports whether the transmission begins.
func (n *conn) answer(o option, data []byte) (begin bool, err error) {
	f := &fields{b: data}
	if n.s.cfg.TLS != nil && !n.tls && o != optStartTLS && o != optAbort {
		return false, n.requireTLS(o)
	}
	switch o {
	case optExportName:
		if string(data) != n.s.cfg.Export {
			return false, fmt.Errorf("nbd: there is no export %.80q; there is %q", data, n.s.cfg.Export)
		}
		if !n.s.use(n) {
			return false, errNoRoom
		}
		return true, n.describe()
	case optStartTLS:
		return false, n.startTLS(f)
	case optAbort:
		_ = n.reply(o, repAck, nil) // the client may have disconnected
		return false, errAborted
	case optList:
		if !f.whole() {
			return false, n.reply(o, repErrInvalid, []byte("LIST has no data"))
		}
		name := n.s.cfg.Export
		entry := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
		entry = append(append(entry, name...), n.s.cfg.Description...)
		return false, errors.Join(n.reply(o, repServer, entry), n.reply(o, repAck, nil))
	case optInfo, optGo:
		ok, err := n.inform(o, f)
		return ok && o == optGo, err
	case optStructuredReply:
		if !f.whole() {
			return false, n.reply(o, repErrInvalid, []byte("STRUCTURED_REPLY has no data"))
		}
		n.structured = true
		return false, n.reply(o, repAck, nil)
	case optListMetaContext, optSetMetaContext:
		return false, n.contexts(o, f)
	}
	return false, n.reply(o, repErrUnsupported, fmt.Appendf(nil, "there is no option %d here", o))
}

// describe answers EXPORT_NAME.
func (n *conn) describe() error {
	b := binary.BigEndian.AppendUint64(nil, uint64(n.s.cfg.Device.Size()))
	b = binary.BigEndian.AppendUint16(b, n.abilities())
	if !n.noZeroes {
		b = append(b, make([]byte, 124)...)
	}
	_, err := n.c.Write(b)
	return err
}

// abilities returns the flags of the server's abilities.
func (n *conn) abilities() uint16 {
	a := uint16(canHasFlags | canFlush | canFUA | canTrim | canWriteZeroes | canFastZero | canMultiConn)
	if n.structured {
		a |= canDF
	}
	if n.s.cfg.ReadOnly {
		a |= canNotWrite
	}
	return a
}

// inform answers INFO and GO. It reports whether the export exists.
func (n *conn) inform(o option, f *fields) (bool, error) {
	name := f.text()
	asked := make(map[uint16]bool)
	for range f.uint16() {
		asked[f.uint16()] = true
		if f.short {
			break
		}
	}
	if !f.whole() {
		return false, n.reply(o, repErrInvalid, []byte("the data is not a name and a list of numbers"))
	}
	if name != n.s.cfg.Export {
		return false, n.reply(o, repErrUnknown,
			fmt.Appendf(nil, "there is no export %.80q; there is %q", name, n.s.cfg.Export))
	}
	if o == optGo && !n.s.use(n) {
		return false, errors.Join(n.reply(o, repErrPolicy, []byte(errNoRoom.Error())), errNoRoom)
	}
	be := binary.BigEndian
	infos := [][]byte{be.AppendUint16(be.AppendUint64(be.AppendUint16(nil, infoExport),
		uint64(n.s.cfg.Device.Size())), n.abilities())}
	if asked[infoName] {
		infos = append(infos, append(be.AppendUint16(nil, infoName), n.s.cfg.Export...))
	}
	if asked[infoDescription] && n.s.cfg.Description != "" {
		infos = append(infos, append(be.AppendUint16(nil, infoDescription), n.s.cfg.Description...))
	}
	if asked[infoBlockSize] {
		infos = append(infos, be.AppendUint32(be.AppendUint32(be.AppendUint32(be.AppendUint16(nil, infoBlockSize), 1),
			uint32(n.s.cfg.Block)), maxRequest))
	}
	for _, i := range infos {
		if err := n.reply(o, repInfo, i); err != nil {
			return false, err
		}
	}
	return true, n.reply(o, repAck, nil)
}

// contexts answers LIST_META_CONTEXT and SET_META_CONTEXT. There is one context: it describes
// which parts take room.
func (n *conn) contexts(o option, f *fields) error {
	if o == optSetMetaContext { // a failure also clears the earlier setting
		n.status = false
	}
	name := f.text()
	count := f.uint32()
	found := count == 0 && o == optListMetaContext
	for range count {
		q := f.text()
		if f.short {
			break
		}
		found = found || q == allocation || q == strings.SplitAfter(allocation, ":")[0] && o == optListMetaContext
	}
	switch {
	case !f.whole():
		return n.reply(o, repErrInvalid, []byte("the data is not a name and a list of queries"))
	case !n.structured:
		return n.reply(o, repErrInvalid, []byte("expected STRUCTURED_REPLY before"))
	case name != n.s.cfg.Export:
		return n.reply(o, repErrUnknown,
			fmt.Appendf(nil, "there is no export %.80q; there is %q", name, n.s.cfg.Export))
	}
	id := uint32(0)
	if o == optSetMetaContext {
		id, n.status = allocationID, found
	}
	if found {
		if err := n.reply(o, repMetaContext,
			append(binary.BigEndian.AppendUint32(nil, id), allocation...)); err != nil {
			return err
		}
	}
	return n.reply(o, repAck, nil)
}

// reply sends a reply to an option.
func (n *conn) reply(o option, a answer, data []byte) error {
	be := binary.BigEndian
	b := be.AppendUint64(make([]byte, 0, 20+len(data)), magicReply)
	b = be.AppendUint32(be.AppendUint32(be.AppendUint32(b, uint32(o)), uint32(a)), uint32(len(data)))
	_, err := n.c.Write(append(b, data...))
	return err
}
