// Package target stops the build on systems where Weft cannot run, with a single error that says
// so. The basic packages import it.
//
//	Linux, amd64 and arm64     all of it
//	macOS, arm64 and amd64     the library with an embedded NIC over UDP or memory, the
//	                           simulator, tools without a daemon
//	other 64-bit unix systems  build, and are not tried
//	Windows, 32 bits           do not build: memory is mapped as on unix, and regions and
//	                           counters have 64-bit lengths
package target
