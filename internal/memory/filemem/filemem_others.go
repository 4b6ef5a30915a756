//go:build !unix

package filemem
