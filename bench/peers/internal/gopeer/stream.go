package gopeer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// byteStream is a conn over an ordered byte stream. Each message is one Write. A program that
// wants more messages per second from such a peer gathers them first, and then the first waits
// for the last.
//
// Whenever the length of the messages changes, a message of 5 bytes announces the new one. Its
// first byte is byteSize.
type byteStream struct {
	rw   io.ReadWriteCloser
	end  func() error // ends the dialer
	size int          // of the messages, as last announced
}

// byteSize begins the message that announces the size of those that follow.
const byteSize = 0xff

func (s *byteStream) announce(size int) error {
	if s.size == size {
		return nil
	}
	s.size = size
	return s.write(binary.BigEndian.AppendUint32([]byte{byteSize}, uint32(size)))
}

func (s *byteStream) write(b []byte) error {
	_, err := s.rw.Write(b)
	return err
}

func (s *byteStream) echo(message []byte) error {
	if err := s.announce(len(message)); err != nil {
		return err
	}
	if err := s.write(message); err != nil {
		return err
	}
	_, err := io.ReadFull(s.rw, message)
	return err
}

func (s *byteStream) pour(message []byte, more func() bool) (int64, error) {
	if err := s.announce(len(message)); err != nil {
		return 0, err
	}
	message[0] = byteData
	for more() {
		if err := s.write(message); err != nil {
			return 0, err
		}
	}
	message[0] = byteLast
	if err := s.write(message); err != nil {
		return 0, err
	}
	var count [8]byte
	_, err := io.ReadFull(s.rw, count[:])
	return int64(binary.BigEndian.Uint64(count[:])), err
}

func (s *byteStream) close() error { return errors.Join(s.rw.Close(), s.end()) }

// serveStream serves one stream until its end.
func serveStream(rw io.ReadWriter) error {
	const gather = 64 << 10
	r := bufio.NewReaderSize(rw, gather)
	buf := make([]byte, maxSize)
	size, count := 0, uint64(0)
	for {
		first, err := r.Peek(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		message := buf[:size]
		if first[0] == byteSize {
			message = buf[:5]
		}
		if _, err := io.ReadFull(r, message); err != nil {
			return err
		}
		switch message[0] {
		case byteSize:
			size = int(binary.BigEndian.Uint32(message[1:]))
			if size < 1 || size > maxSize {
				return fmt.Errorf("messages of %d bytes were announced, expected 1 to %d", size, maxSize)
			}
		case byteEcho:
			if _, err := rw.Write(message); err != nil {
				return err
			}
		case byteData:
			count++
		case byteLast:
			if _, err := rw.Write(binary.BigEndian.AppendUint64(nil, count+1)); err != nil {
				return err
			}
			count = 0
		}
	}
}
