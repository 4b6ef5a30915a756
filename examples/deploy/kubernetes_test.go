package deploy_test

import (
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/environ"
)

// readDaemon returns the objects of the NIC daemon.
func readDaemon(t *testing.T) (n namespace, c configMap, d daemonSet) {
	t.Helper()
	read(t, "kubernetes/daemon/daemonset.yaml", &n, &c, &d)
	n.is(t, "v1", "Namespace")
	c.is(t, "v1", "ConfigMap")
	d.is(t, "apps/v1", "DaemonSet")
	return n, c, d
}

// configuration returns the configuration of the NIC daemon, as the daemon parses it.
func configuration(t *testing.T) daemon.Config {
	t.Helper()
	_, c, _ := readDaemon(t)
	cfg, err := daemon.Parse([]byte(c.Data["nic.toml"]))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTheDaemonOfANodeFindsWhatItsConfigurationNames(t *testing.T) {
	n, c, d := readDaemon(t)
	if c.Metadata.Namespace != n.Metadata.Name || d.Metadata.Namespace != n.Metadata.Name {
		t.Errorf("the objects are in the namespaces %q and %q; expected %q", c.Metadata.Namespace, d.Metadata.Namespace, n.Metadata.Name)
	}
	for k, v := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Metadata.Labels[k] != v {
			t.Errorf("the selector wants %s=%s, which the pods do not have", k, v)
		}
	}
	pod := d.Spec.Template.Spec
	pod.consistent(t)
	if !pod.HostNetwork || !pod.HostPID || pod.DNSPolicy != "ClusterFirstWithHostNet" {
		t.Error("the daemon is not in the network and among the processes of its node")
	}
	cfg, nic := configuration(t), pod.Containers[0]
	mounted := func(file string) mount {
		for _, m := range nic.VolumeMounts {
			if file == m.MountPath || strings.HasPrefix(file, m.MountPath+"/") {
				return m
			}
		}
		t.Errorf("nothing is mounted for %s", file)
		return mount{}
	}
	volumeOf := func(m mount) (v volume) {
		i := slices.IndexFunc(pod.Volumes, func(v volume) bool { return v.Name == m.Name })
		return pod.Volumes[i]
	}
	if v := volumeOf(mounted(cfg.Socket)); v.HostPath.Path != path.Dir(cfg.Socket) || v.HostPath.Type != "DirectoryOrCreate" {
		t.Errorf("the socket is on %+v; expected the same directory of the node, which pods mount", v.HostPath)
	}
	if v := volumeOf(mounted(cfg.StateDir)); v.HostPath.Path != cfg.StateDir {
		t.Errorf("the state is on %+v, and would be lost with the pod", v.HostPath)
	}
	if v := volumeOf(mounted(cfg.KeyFiles[0])); v.Secret.SecretName == "" || v.Secret.DefaultMode&0o077 != 0 {
		t.Errorf("the fabric key is in %+v; expected a secret that only its owner reads", v.Secret)
	}
	if got := nic.Args; !slices.Equal(got, []string{"nic", "--config", "/etc/weft/nic.toml"}) || mounted(got[2]).SubPath != "nic.toml" {
		t.Errorf("the daemon runs with %q", got)
	}
	if cfg.Slots == nil || *cfg.Slots != 0 {
		t.Error("the daemon starts ranks for weft run, which Kubernetes would not count")
	}
	if *nic.SecurityContext.RunAsUser != 0 || len(nic.SecurityContext.Capabilities.Add) > 0 {
		t.Error("the daemon is not root without capabilities, as it needs to be with a UDP link")
	}
}

func TestTheDaemonOfANodeUsesTheNumbersOfItsPorts(t *testing.T) {
	_, _, d := readDaemon(t)
	var got []string
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		if p.ContainerPort != p.HostPort {
			t.Errorf("port %d of the node is %d of the container; in the node's network they are the same", p.HostPort, p.ContainerPort)
		}
		got = append(got, fmt.Sprintf("%d/%s", p.HostPort, p.Protocol))
	}
	link := strconv.Itoa(daemon.DefaultPort) + "/UDP"
	gossip := strconv.Itoa(daemon.DefaultGossipPort)
	if want := []string{link, gossip + "/UDP", gossip + "/TCP"}; !slices.Equal(got, want) {
		t.Errorf("the ports are %v; the daemon uses %v", got, want)
	}
}

func TestThePatchForXDPGivesTheDaemonItsCapabilities(t *testing.T) {
	var k, base kustomization
	read(t, "kubernetes/daemon-xdp/kustomization.yaml", &k)
	read(t, "kubernetes/daemon/kustomization.yaml", &base)
	for _, o := range []kustomization{k, base} {
		o.is(t, "kustomize.config.k8s.io/v1beta1", "Kustomization")
	}
	if !slices.Equal(k.Resources, []string{"../daemon"}) || !slices.Equal(base.Resources, []string{"daemonset.yaml"}) {
		t.Errorf("the kustomizations name %v and %v", k.Resources, base.Resources)
	}
	var patch daemonSet
	read(t, filepath.Join("kubernetes/daemon-xdp", k.Patches[0].Path), &patch)
	_, _, d := readDaemon(t)
	if patch.object.Metadata.Name != d.Metadata.Name || patch.Metadata.Namespace != d.Metadata.Namespace || patch.Kind != d.Kind {
		t.Errorf("the patch is for %+v; expected %+v", patch.object, d.object)
	}
	c, nic := patch.Spec.Template.Spec.Containers[0], d.Spec.Template.Spec.Containers[0]
	if c.Name != nic.Name || !slices.Equal(c.Args[:len(nic.Args)], nic.Args) {
		t.Errorf("the patch runs container %s with %q", c.Name, c.Args)
	}
	if want := []string{"NET_ADMIN", "NET_RAW", "BPF", "IPC_LOCK"}; !slices.Equal(c.SecurityContext.Capabilities.Add, want) {
		t.Errorf("the patch gives %v; AF_XDP needs %v", c.SecurityContext.Capabilities.Add, want)
	}
}

func TestThePodsOfAnIndexedJobAreTheRanksOfOneJob(t *testing.T) {
	var j job
	read(t, "kubernetes/job.yaml", &j)
	j.is(t, "batch/v1", "Job")
	j.Spec.check(t)
	var places []environ.Place
	for i := range j.Spec.Completions {
		places = append(places, j.Spec.place(t, i, map[string]string{
			"metadata.namespace":                              "lab",
			"metadata.labels['batch.kubernetes.io/job-name']": j.Metadata.Name,
		}))
	}
	areRanks(t, places, environ.IndexedJob, 4, "world.lab")
}

func TestThePodsOfAJobSetAreTheRanksOfOneJob(t *testing.T) {
	var s jobSet
	read(t, "kubernetes/jobset.yaml", &s)
	s.is(t, "jobset.x-k8s.io/v1alpha2", "JobSet")
	r := s.Spec.ReplicatedJobs[0]
	r.Template.Spec.check(t)
	for restart, app := range []string{"world.lab", "world.lab.1"} {
		var places []environ.Place
		for global := range r.Replicas {
			for i := range r.Template.Spec.Completions {
				places = append(places, r.Template.Spec.place(t, i, map[string]string{
					"metadata.namespace": "lab",
					"metadata.labels['jobset.sigs.k8s.io/jobset-name']":      s.Metadata.Name,
					"metadata.labels['jobset.sigs.k8s.io/restart-attempt']":  strconv.Itoa(restart),
					"metadata.labels['jobset.sigs.k8s.io/job-global-index']": strconv.Itoa(global),
				}))
			}
		}
		areRanks(t, places, environ.JobSet, 8, app)
	}
	if s.Spec.FailurePolicy.MaxRestarts == 0 {
		t.Error("the JobSet does not start again")
	}
}

// check fails the test if pods of a job cannot be ranks, or do not find the daemon of their
// node.
func (s jobSpec) check(t *testing.T) {
	t.Helper()
	pod := s.Template.Spec
	pod.consistent(t)
	if s.CompletionMode != "Indexed" || s.Parallelism != s.Completions {
		t.Errorf("%s, %d pods at once of %d; expected that all ranks run at once", s.CompletionMode, s.Parallelism, s.Completions)
	}
	if s.BackoffLimit == nil || *s.BackoffLimit != 0 || pod.RestartPolicy != "Never" || s.PodReplacementPolicy != "Failed" {
		t.Error("a single rank is started again, which cannot join the group of the others")
	}
	cfg, rank := configuration(t), pod.Containers[0]
	if v := pod.Volumes[0]; v.HostPath.Path != path.Dir(cfg.Socket) || rank.VolumeMounts[0].MountPath != v.HostPath.Path || v.HostPath.Type != "Directory" {
		t.Errorf("the pod mounts %+v at %s; the daemon's socket is %s", v.HostPath, rank.VolumeMounts[0].MountPath, cfg.Socket)
	}
	if c := rank.SecurityContext; !c.RunAsNonRoot || !slices.Contains(cfg.AllowUIDs, *c.RunAsUser) {
		t.Errorf("the pod runs as user %d; the daemon allows %v", *c.RunAsUser, cfg.AllowUIDs)
	}
}

// secretKey is the value in the secret of a job.
const secretKey = "4f6a0c2e91d3b7854f6a0c2e91d3b785"

// place returns the place in the job that the pod with an index finds in its environment. fields
// holds the fields of the pod, as Kubernetes sets them.
func (s jobSpec) place(t *testing.T, index int, fields map[string]string) environ.Place {
	t.Helper()
	env := map[string]string{"JOB_COMPLETION_INDEX": strconv.Itoa(index), "HOSTNAME": fmt.Sprintf("pod-%d", index)}
	for _, v := range s.Template.Spec.Containers[0].Env {
		value, from := v.Value, v.ValueFrom.FieldRef.FieldPath
		if from != "" {
			var known bool
			if value, known = fields[from]; !known {
				t.Errorf("%s comes from %s, which such a pod does not have", v.Name, from)
			}
		}
		if secret := v.ValueFrom.SecretKeyRef; secret.Name != "" {
			if value = secretKey; v.Name != "WEFT_JOB_KEY" || secret.Key == "" {
				t.Errorf("%s comes from the secret %+v; expected that only the job's key is secret", v.Name, secret)
			}
		}
		env[v.Name] = value
	}
	p, err := environ.From(func(name string) string { return env[name] })
	if err != nil {
		t.Fatalf("pod %d: %v", index, err)
	}
	if p.Socket != configuration(t).Socket {
		t.Errorf("pod %d attaches at %s", index, p.Socket)
	}
	return p
}

// areRanks fails the test unless places are all ranks of one job, in order.
func areRanks(t *testing.T, places []environ.Place, launcher string, size int, app string) {
	t.Helper()
	if len(places) != size {
		t.Errorf("there are %d pods; expected %d", len(places), size)
	}
	for i, p := range places {
		if p.JobKey != secretKey {
			t.Errorf("pod %d does not have the key of the job", i)
		}
		p.Socket, p.Restart, p.JobKey = "", 0, ""
		if want := (environ.Place{Launcher: launcher, App: app, Rank: i, Size: size}); !reflect.DeepEqual(p, want) {
			t.Errorf("pod %d is %+v; expected %+v", i, p, want)
		}
	}
}
