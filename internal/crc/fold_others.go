//go:build !amd64

package crc

const folds = false

func fold(uint32, []byte) uint32 { panic("crc: fold is not made for this processor") }

func foldCopy(uint32, []byte, []byte) uint32 { panic("crc: foldCopy is not made for this processor") }

func short(uint32, []byte) uint32 { panic("crc: short is not made for this processor") }
