package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/pdl/prog"
)

// The flags of weft pdl run give the programs segments, locks and messages. All of it is read
// before the first program starts.

// A givenSegment is a segment that exists before the programs start.
type givenSegment struct {
	id       uint32
	size     int    // in bytes, as given; a NIC rounds it up to a multiple of 8
	contents []byte // nil for zeros
}

func parseSegment(s string) (g givenSegment, err error) {
	number, content, ok := strings.Cut(s, "=")
	id, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return g, usagef("--segment %q: expected ID=BYTES, ID=text:… or ID=hex:…, with an ID from 0 to 4294967295",
			s)
	}
	if strings.Contains(content, ":") {
		b, err := part(content)
		if err != nil {
			return g, usagef("--segment %q: expected ID=BYTES, ID=text:… or ID=hex:…", s)
		}
		if len(b) < 1 || len(b) > limits.SegmentBytes {
			return g, usagef("--segment %q: %d bytes, expected 1 to %d", s, len(b), limits.SegmentBytes)
		}
		return givenSegment{uint32(id), len(b), b}, nil
	}
	size, ok := parseBytes(content)
	if !ok || size < 1 || size > limits.SegmentBytes {
		return g, usagef("--segment %q: %q is no size, expected 1 to %d bytes, such as 4096 or 16MiB",
			s, content, limits.SegmentBytes)
	}
	return givenSegment{uint32(id), int(size), nil}, nil
}

// locksFlag defines a flag that takes numbers of locks, and may be repeated.
func locksFlag(fs *pflag.FlagSet, p *[]int64, name, usage string) {
	fs.Var(&checkedFlag{
		kind: "N,N",
		want: "numbers of locks from 0 to 1099511627775, such as 3 or 3,4",
		set: func(s string) bool {
			for number := range strings.SplitSeq(s, ",") {
				n, err := strconv.ParseUint(number, 10, 40) // 256 of each segment
				if err != nil {
					return false
				}
				*p = append(*p, int64(n))
			}
			return true
		},
	}, name, usage)
}

// A givenMessage is a message for a program. The program is a number or a name; empty means the
// first.
type givenMessage struct {
	spec    string
	program string
	nic     string // empty: the one that has the program
	trigger uint32
	payload []byte
}

// collect parses the messages from the flags and the input.
func collect(specs []string, in io.Reader) (messages []givenMessage, err error) {
	add := func(spec string) error {
		m, err := parseMessage(spec)
		messages = append(messages, m)
		return err
	}
	for _, s := range specs {
		if s != "-" {
			if err := add(s); err != nil {
				return nil, err
			}
			continue
		}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				if err := add(line); err != nil {
					return nil, err
				}
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read messages: %w", err)
		}
	}
	return messages, nil
}

var messageForm = regexp.MustCompile(`(?s)^(?:([^:@/]+)(?:@([^@/]+))?/)?([0-9]+)(?::(.*))?$`)

func parseMessage(spec string) (m givenMessage, err error) {
	parts := messageForm.FindStringSubmatch(spec)
	if parts == nil {
		return m, usagef("message %q: expected [PROGRAM[@NIC]/]TRIGGER[:PART,PART…], with a number for the trigger",
			spec)
	}
	n, err := strconv.ParseUint(parts[3], 10, 32)
	if err != nil {
		return m, usagef("message %q: trigger %s, expected 0 to 4294967295", spec, parts[3])
	}
	m = givenMessage{spec: spec, program: parts[1], nic: parts[2], trigger: uint32(n)}
	content := parts[4]
	if content != "" {
		for s := range strings.SplitSeq(content, ",") {
			b, err := part(s)
			if err != nil {
				return m, usagef("message %q: %v", spec, err)
			}
			m.payload = append(m.payload, b...)
		}
	}
	if len(m.payload) > prog.MaxMessage {
		return m, usagef("message %q: %d bytes, at most %d are allowed", spec, len(m.payload), prog.MaxMessage)
	}
	return m, nil
}

// part parses one part of a message's contents.
func part(s string) ([]byte, error) {
	kind, rest, named := strings.Cut(s, ":")
	switch {
	case !named:
		base := baseOf(strings.TrimPrefix(s, "-"))
		n, err := strconv.ParseInt(s, base, 64)
		if u, errU := strconv.ParseUint(s, base, 64); err != nil && errU == nil {
			n, err = int64(u), nil
		}
		if err == nil {
			return binary.LittleEndian.AppendUint64(nil, uint64(n)), nil
		}
	case kind == "text":
		return []byte(rest), nil
	case kind == "hex":
		if b, err := hex.DecodeString(rest); err == nil {
			return b, nil
		}
	case kind == "zero":
		switch n, err := strconv.Atoi(rest); {
		case err != nil || n < 0:
		case n > prog.MaxMessage:
			return nil, fmt.Errorf("%q: a message has at most %d bytes", s, prog.MaxMessage)
		default:
			return make([]byte, n), nil
		}
	}
	return nil, fmt.Errorf("%q: expected a number, text:…, hex:… or zero:N", s)
}

// baseOf returns the base of a number for strconv: 10, or 0 if the number has a prefix 0x, 0o or
// 0b. A zero before a decimal number means nothing, as in PDL.
func baseOf(number string) int {
	if len(number) > 1 && number[0] == '0' && strings.Contains("xXoObB", number[1:2]) {
		return 0
	}
	return 10
}
