// Package ebpf runs programs for the NIC in the kernel's driver. It compiles verified modules
// (pdl/prog) to XDP programs. These answer a message where its frame arrives, before any process
// of this host is woken, including the daemon.
//
//	                   the NIC's own XDP program: our UDP?                    the engine
//	frame ────────────► StepDispatch: for a program? ──── no ───► StepOn ───► (AF_XDP socket)
//	                         │ yes                                  ▲
//	                         ▼                                      │ not in order
//	                    the program: tag, session, counter ─────────┤
//	                         │ block of the trigger                 │
//	reply ◄── XDP_TX ── SEND ┤                                      │
//	                         └── AWAIT, PASS, DROP, error: XDP_DROP
//
// Each arrow to the right is a tail call through the array Host.Steps. The state of a program in
// the kernel is one array map, which is also mapped here: its variables, in the layout of the
// virtual machine (pdl/vm), the frame, and its accounts. So a program begins in the virtual
// machine, which runs the initialisation, and continues in the kernel after Resident.Start.
//
// # Loops
//
// The kernel's verifier must see that a program ends. The code between two jumps back has no
// loop, and becomes one function. The kernel calls it for each turn by bpf_loop, at most as
// often as the budget has instructions. The function charges the instructions that it executes,
// and ends the activation when the budget is used up. So two limits bound each program that
// Check accepts: its loops, which visibly count towards a bound, and its budget.
//
// # Differences from the virtual machine
//
// The budget is checked where the program jumps back and where it copies, not at each
// instruction. The driver does not handle a message in pieces, or one longer than MostMessage.
// If the answer to a message may not fit into its frame or the path, the message goes on to the
// engine before the program runs. Names are resolved when the program is compiled. A datagram is
// lost if another one of its session overtakes it. Everything else is the same, word for word,
// and the tests check it.
//
// It needs Linux 5.19: bpf_loop came with 5.17, bpf_xdp_load_bytes with 5.18, and
// bpf_dynptr_from_mem with 5.19.
package ebpf
