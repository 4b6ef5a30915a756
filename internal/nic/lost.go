package nic

// takeLost returns, once, how many sends of p to a lost peer had completed without an acknowledgement.
func (e *Engine) takeLost(p *process, pr *peer) uint64 { return 0 }
