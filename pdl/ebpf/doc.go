// Package ebpf has programs for the NIC run in the kernel's driver: it compiles verified modules (pdl/prog) to XDP programs, which
// answer a message where its frame comes in, before any process of this host, the daemon too, has been woken.
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
// Each arrow to the right is a tail call through the array Host.Steps. What a program has in the kernel is one array map, which is
// mapped here too: its variables, as the virtual machine lays them out (pdl/vm), the frame, and its accounts. So a program begins in
// the virtual machine, which runs the initialisation, and goes on in the kernel with Resident.Start.
//
// # Loops
//
// The verifier of the kernel wants to see that a program ends. Code between two jumps back has no loop, and is one function; the
// kernel calls it for each turn by bpf_loop, as often as the budget has instructions at most. The function charges what it executes,
// and ends the activation when the budget is used up. So each program that Check takes is bounded twice: by its loops, which count
// towards a bound as Check wants to see it, and by its budget.
//
// # What is different from the virtual machine
//
// The budget is looked at where the program jumps back and where it copies, not at each instruction. A message in pieces, or one
// longer than MostMessage, does not come here. A message whose answer may not fit into its frame or
// the path goes on to the engine before the program runs. Names are looked up when the program is
// compiled. A datagram that another of its session has overtaken is lost. All else is the same, word
// for word, and the tests hold it to that.
//
// It needs Linux 5.19: bpf_loop is of 5.17, bpf_xdp_load_bytes of 5.18, bpf_dynptr_from_mem of 5.19.
package ebpf
