package docs_test

// breaksOfLinks are breaks of AF_XDP links, their resident programs and captures. Such faults
// appeared when others used them.
var breaksOfLinks = []lineBreak{
	{"longer answers", "pdl/ebpf/reply.go", "asm.JNE.Imm(asm.R0, 0, labelHand),", "asm.JNE.Imm(asm.R0, 0, fits),", "internal/resident TestEachQuestionIsAnsweredOnceByTheDriverOrTheEngine"},
	{"longer answers", "pdl/ebpf/reply.go", "asm.JGT.Reg(asm.R1, asm.R2, labelHand),", "", "pdl/ebpf TestAReplyThatThePathDoesNotCarryIsTheEngines"},
	{"longer answers", "pdl/ebpf/reply.go", "bound = max(bound, f.atMost(pc, w.A()+1, w.Range().Len*8))", "bound = 8", "pdl/ebpf TestTheLongestAnswerIsWhatTheSourceSays"},
	{"longer answers", "pdl/ebpf/frame.go", "		atomic(asm.CmpXchg, asm.R9, asm.R1, asm.DWord, sessionTop),\n", "", "pdl/ebpf TestAReplyThatThePathDoesNotCarryIsTheEngines"},
	{"links that come back", "internal/link/xdp/again_linux.go", "err = d.chain(c.steps, c.first, c.on)", "", "internal/resident TestAProgramInTheDriverAnswersAgainWhenTheInterfaceIsBack"},
	{"links that come back", "internal/link/xdp/again_linux.go", "if err == nil && info.XDP() != nil && info.XDP().Ifindex == 0 {", "if err == nil && info == nil {", "internal/link/xdp TestADriverIsAttachedAgainToAnInterfaceThatComesBackAtOnce"},
	{"links that come back", "internal/link/xdp/again_linux.go", "	d.routes.forget(a.at.index, a.at.hw, a.at.vlan)\n", "", "internal/link/xdp TestADriverIsAttachedAgainToAnInterfaceThatComesBack"},
	{"links that come back", "internal/link/xdp/again_linux.go", "	if d.watched {\n		d.watchQueues()\n	}\n", "", "internal/link/xdp TestADriverThatSleptIsWokenWhenItsInterfaceIsBack"},
	{"links that come back", "internal/daemon/link_linux.go", "if c.xdp != nil && !c.xdp.Attached() {", "if false {", "cmd/weft TestALinkThatComesBackIsToldOfAndUsedAgain"},
	{"full disk", "internal/link/capture/write.go", "say = w.failed", "_ = w.failed", "internal/link/capture TestAFullDiskIsToldApartAndCounted"},
	{"full disk", "internal/link/capture/capture.go", "to.CaptureMissed += c.Missed()", "", "internal/link/capture TestAFullDiskIsToldApartAndCounted"},
	{"full disk", "internal/daemon/link_linux.go", "func(text string) { d.log.Warn(\"link\", \"what\", text) }}", "func(text string) { d.log.Info(\"link\", \"what\", text) }}", "cmd/weft TestANICOutlivesAFullDiskUnderItsCapture"},
	{"full disk", "cmd/weft/nic.go", "	reloadsOnHangUp(d.Reload)", "	_ = d.Reload", "cmd/weft TestANICOutlivesAFullDiskUnderItsCapture"},
}
