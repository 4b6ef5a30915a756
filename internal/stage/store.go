package stage

import "io"

// Store keeps the content of staged files on one host. A [Cache] is the Store of a real host.
type Store interface {
	// Have returns the content of a manifest, whose hash it has checked. It fails with
	// fs.ErrNotExist if there is none.
	Have(m *Manifest) (Content, error)

	// Draft begins to store the content of a manifest.
	Draft(m *Manifest) (Draft, error)
}

// Content is the complete content of a file.
type Content interface {
	io.ReaderAt
	io.Closer
}

// Draft is content that is arriving. ReadAt and WriteAt may be called concurrently.
type Draft interface {
	io.ReaderAt
	io.WriterAt

	// Commit checks the hash of the whole file, and makes the draft the content for later calls
	// of Have. It fails with ErrContent if the hash differs. The draft can be read until Close.
	Commit() (Content, error)

	// Close ends the draft, and discards it if Commit has not succeeded.
	Close() error
}
