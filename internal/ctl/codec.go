package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// decode reads one message strictly: all of b must be one JSON object, whose fields are all
// known.
func decode(b []byte, into any) error {
	if len(b) > MaxMessage {
		return fmt.Errorf("%w: message of %d bytes; at most %d", ErrBadRequest, len(b), MaxMessage)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %v", ErrBadRequest, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: something follows the message", ErrBadRequest)
	}
	return nil
}

// encode writes one message.
func encode(m any) ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("message of %d bytes; at most %d", len(b), MaxMessage)
	}
	return b, nil
}

// DecodeRequest reads a request as the daemon does.
func DecodeRequest(b []byte) (*Request, error) {
	var r Request
	if err := decode(b, &r); err != nil {
		return nil, err
	}
	return &r, r.check()
}

// DecodeReply reads a reply as a client does. It returns a refusal as an *Error.
func DecodeReply(b []byte) (*Reply, error) {
	var r Reply
	if err := decode(b, &r); err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return &r, nil
}

// Encode writes a request as a client does.
func (r *Request) Encode() ([]byte, error) {
	r.Version = Version
	return encode(r)
}

// Encode writes a reply as the daemon does.
func (r *Reply) Encode() ([]byte, error) { return encode(r) }

// ErrorReply returns the reply that reports err.
func ErrorReply(err error) *Reply { return &Reply{Error: errorFor(err)} }
