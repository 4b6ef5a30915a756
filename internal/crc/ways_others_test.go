//go:build !amd64

package crc

func ways() []way { return []way{{"library", func() func() { return func() {} }}} }
