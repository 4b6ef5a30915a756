package main

import (
	"context"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/bench/peers/internal/pagepeer"
	"github.com/weftnet/weft/bench/peers/internal/tool"
)

// addPages adds the contestants that keep pages for another host, and those that show them as a
// device.
func (l *list) addPages() {
	servers := make(map[string]tool.Server) // by the name of a peer
	for _, link := range pagepeer.Links() {
		servers["Weft, page-in, "+link.Name] = tool.PageServer(l.f.weft, link)
		servers["Weft, call, "+link.Name] = tool.CallServer(l.self, link)
	}
	for name, find := range map[string]func() (tool.Server, error){
		"Redis": tool.NewRedis, "memcached": tool.NewMemcached,
	} {
		if s, err := find(); l.there(name, err) {
			servers[name], servers[name+", pipelined"] = s, s
		}
	}
	for _, p := range pagepeer.All() {
		if server := servers[p.Name]; server != nil {
			l.addOver(contest.Pages, p.Name, contest.PageJobs(l.f.head).Upto(contest.PageSize, p.Measures...), p.Notes,
				(&tool.Pages{Self: l.self, Kind: p.Kind, Server: server}).Run)
		}
	}
	l.addDevices()
}

func (l *list) addDevices() {
	add := func(name string, d tool.Device, notes map[string]string) {
		f, err := tool.NewFio(d)
		if l.there(name, err) {
			l.addOver(contest.Blocks, name, contest.PageJobs(l.f.head).Upto(contest.PageSize, contest.Latency,
				contest.Reads), notes, f.Run)
		}
	}
	for _, link := range pagepeer.Links() {
		add("Weft, mem nbd, "+link.Name, tool.MemNBD(l.f.weft, l.dir, link), map[string]string{
			contest.Latency: "fio asks weft mem nbd by a unix socket of its host, " +
				"and that the page server on the other host"})
	}
	if d, err := tool.NewNbdkit(); l.there("nbdkit", err) {
		add("nbdkit", d, map[string]string{contest.Latency: "fio asks its plugin memory on the other host by TCP"})
	}
}

// addOver adds a contestant between two hosts.
func (l *list) addOver(
	where, name string, jobs contest.Jobs, notes map[string]string,
	run func(context.Context, *ground.Site, contest.Jobs) ([]contest.Sample, error),
) {
	l.add(contest.Contestant{Name: name, Ground: where, Jobs: jobs, Notes: notes,
		Run: func(ctx context.Context, jobs contest.Jobs) ([]contest.Sample, error) {
			return run(ctx, l.veth, jobs)
		}})
}
