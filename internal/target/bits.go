//go:build 386 || arm || mips || mipsle || wasm

package target

var _ = weft_does_not_support_32_bit_processors___it_needs_amd64_or_arm64
