package stage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"unicode"
	"unicode/utf8"

	"github.com/weftnet/weft/internal/limits"
)

// ErrManifest is the error of a manifest that no correct launcher sends.
var ErrManifest = errors.New("the manifest of the staged file is invalid")

// ErrContent is the error of content that differs from its manifest.
var ErrContent = errors.New("the content of the staged file is wrong")

// Manifest describes a file that is staged. The launcher makes it by [Describe] and sends it to the
// keepers.
type Manifest struct {
	// Name is the name of the file in the directory of the job: 1 to 128 bytes, no directory.
	Name string `json:"name"`

	// SizeBytes is the length of the file, at most 1 GiB.
	SizeBytes int64 `json:"size_bytes"`

	// Mode holds the permission bits of the placed file: 0500 for a program, 0400 for data.
	Mode fs.FileMode `json:"mode"`

	// SHA256 is the hash of the whole content, as 64 lower-case hexadecimal digits.
	SHA256 string `json:"sha256"`

	// Sums holds the SHA-256 of every chunk, one after the other, 32 bytes each. A chunk has 256
	// KiB, and in a file of more than 256 MiB it has 1 MiB.
	Sums []byte `json:"sums"`
}

// The modes that a staged file can have.
const (
	ModeProgram fs.FileMode = 0o500
	ModeData    fs.FileMode = 0o400
)

// Describe reads a file of a given length and returns its manifest. It fails with [ErrManifest]
// if the file is longer than 1 GiB, or if the name or the mode is not allowed, and with
// [ErrContent] if the file does not have that length.
func Describe(file io.Reader, sizeBytes int64, name string, mode fs.FileMode) (*Manifest, error) {
	m := &Manifest{Name: name, Mode: mode, SizeBytes: sizeBytes}
	if sizeBytes < 0 || sizeBytes > limits.StagedFileBytes {
		return nil, tooLong(sizeBytes)
	}
	whole, chunk, left := sha256.New(), make([]byte, m.chunkBytes()), sizeBytes
	for left > 0 {
		n := min(left, m.chunkBytes())
		if _, err := io.ReadFull(file, chunk[:n]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: %s has less than %d bytes", ErrContent, name, sizeBytes)
		} else if err != nil {
			return nil, fmt.Errorf("stage: read %s: %w", name, err)
		}
		whole.Write(chunk[:n])
		sum := sha256.Sum256(chunk[:n])
		m.Sums = append(m.Sums, sum[:]...)
		left -= n
	}
	if n, _ := file.Read(chunk[:1]); n > 0 {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrContent, name, sizeBytes)
	}
	m.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return m, m.Check()
}

// Check fails with [ErrManifest] if a field is invalid. Call it before any use of a manifest that
// arrived from another host.
func (m *Manifest) Check() error {
	switch {
	case m == nil:
		return fmt.Errorf("%w: there is none", ErrManifest)
	case !plainName(m.Name):
		return fmt.Errorf("%w: name %.140q; expected the name of a file, of 1 to %d printable characters, "+
			"without a directory",
			ErrManifest, m.Name, limits.StagedName)
	case m.Mode != ModeProgram && m.Mode != ModeData:
		return fmt.Errorf("%w: mode %#o; expected %#o or %#o", ErrManifest, uint32(m.Mode),
			uint32(ModeProgram), uint32(ModeData))
	case m.SizeBytes < 0 || m.SizeBytes > limits.StagedFileBytes:
		return tooLong(m.SizeBytes)
	case len(m.Sums) != m.Chunks()*sha256.Size:
		return fmt.Errorf("%w: %d bytes of hashes; expected %d for %d chunks", ErrManifest, len(m.Sums),
			m.Chunks()*sha256.Size, m.Chunks())
	}
	if sum, err := hex.DecodeString(m.SHA256); err != nil || len(sum) != sha256.Size ||
		hex.EncodeToString(sum) != m.SHA256 {
		return fmt.Errorf("%w: sha256 %.70q; expected %d lower-case hexadecimal digits", ErrManifest,
			m.SHA256, 2*sha256.Size)
	}
	return nil
}

func tooLong(sizeBytes int64) error {
	return fmt.Errorf("%w: a file of %d bytes; expected at most %d; place a longer file on the hosts by other means",
		ErrManifest, sizeBytes, limits.StagedFileBytes)
}

// plainName reports whether a name stays in the directory in which it is used, and prints as one
// word. A leading dot would hide the file, and a leading hyphen would look like an option.
func plainName(name string) bool {
	if len(name) == 0 || len(name) > limits.StagedName || !utf8.ValidString(name) || name[0] == '.' || name[0] == '-' {
		return false
	}
	for _, r := range name {
		if r == '/' || r == '\\' || !unicode.IsGraphic(r) {
			return false
		}
	}
	return true
}

// chunkBytes returns the length of every chunk but the last.
func (m *Manifest) chunkBytes() int64 {
	if m.SizeBytes > limits.StagedChunks*limits.StagedChunkBytes {
		return limits.LongChunkBytes
	}
	return limits.StagedChunkBytes
}

// Chunks returns the number of chunks. An empty file has none.
func (m *Manifest) Chunks() int { return int((m.SizeBytes + m.chunkBytes() - 1) / m.chunkBytes()) }

// span returns the place of a chunk in the file.
func (m *Manifest) span(chunk int) (offset int64, n int) {
	offset = int64(chunk) * m.chunkBytes()
	return offset, int(min(m.chunkBytes(), m.SizeBytes-offset))
}

// right reports whether b is the content of a chunk.
func (m *Manifest) right(chunk int, b []byte) bool {
	_, n := m.span(chunk)
	sum := sha256.Sum256(b)
	return len(b) == n && bytes.Equal(sum[:], m.Sums[chunk*sha256.Size:][:sha256.Size])
}

// whole fails with ErrContent if a file is not the content that the manifest describes.
func (m *Manifest) whole(file io.ReaderAt) error {
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(file, 0, m.SizeBytes+1))
	if err != nil {
		return err
	}
	if is := hex.EncodeToString(sum.Sum(nil)); n != m.SizeBytes || is != m.SHA256 {
		return fmt.Errorf("%w: %d bytes or more with sha256 %s; expected %d bytes with sha256 %s", ErrContent, n,
			is, m.SizeBytes, m.SHA256)
	}
	return nil
}
