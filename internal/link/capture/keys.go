package capture

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/weftnet/weft/internal/seal"
)

// secretsType is the type of Weft's secrets: "WFKL", for Weft key log. It is not registered.
const secretsType = 0x57464b4c

const (
	keyWord  = "WEFT_KEY" // beginning of a line
	outWord  = "out"
	inWord   = "in"
	keyWords = 7

	// keyLineMost is the longest line, in bytes: the name of a suite, two numbers of 20 digits
	// and 64 hexadecimal digits.
	keyLineMost = 160
)

// secretsBytes returns the length of a block with text bytes of text.
func secretsBytes(text int) int { return 16 + padded(text) + 4 }

// appendSecrets appends a secrets block with a text.
func appendSecrets(b, text []byte) []byte {
	at := len(b)
	b = begin(b, blockSecrets)
	b = le.AppendUint32(b, secretsType)
	b = le.AppendUint32(b, uint32(len(text)))
	return end(pad(append(b, text...)), at)
}

// appendKey appends the line of a key.
func appendKey(b []byte, k *seal.KeyLog) []byte {
	way := inWord
	if k.Outbound {
		way = outWord
	}
	b = append(append(append(append(b, keyWord...), ' '), way...), ' ')
	b = hex.AppendEncode(b, []byte{byte(k.Index >> 24), byte(k.Index >> 16), byte(k.Index >> 8), byte(k.Index)})
	b = append(append(append(b, ' '), k.Suite.String()...), ' ')
	b = append(strconv.AppendUint(b, k.Phase, 10), ' ')
	b = append(strconv.AppendUint(b, k.First, 10), ' ')
	return append(hex.AppendEncode(b, k.Key), '\n')
}

var errKeyLine = errors.New("capture: malformed line of a key")

// parseKey parses the line of a key, without its line end.
func parseKey(line string) (k seal.KeyLog, err error) {
	w := strings.Split(line, " ")
	if len(line) > keyLineMost || len(w) != keyWords || w[0] != keyWord || w[1] != outWord && w[1] != inWord {
		return k, errKeyLine
	}
	index, err := strconv.ParseUint(w[2], 16, 32)
	if err != nil {
		return k, errKeyLine
	}
	k.Outbound, k.Index = w[1] == outWord, uint32(index)
	if k.Suite, err = seal.ParseSuite(w[3]); err != nil {
		return k, errKeyLine
	}
	if k.Phase, err = strconv.ParseUint(w[4], 10, 64); err != nil {
		return k, errKeyLine
	}
	if k.First, err = strconv.ParseUint(w[5], 10, 64); err != nil {
		return k, errKeyLine
	}
	if k.Key, err = hex.DecodeString(w[6]); err != nil || len(k.Key) != k.Suite.KeyLen() {
		return k, errKeyLine
	}
	return k, nil
}
