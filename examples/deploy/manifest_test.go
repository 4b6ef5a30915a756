package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The types below have the fields of Kubernetes that the manifests use. A manifest with any
// other field fails the test, so a misspelt field does.
type (
	meta struct {
		Name, Namespace string
		Labels          map[string]string
	}
	object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
	}
	namespace struct {
		object `yaml:",inline"`
	}
	configMap struct {
		object `yaml:",inline"`
		Data   map[string]string
	}
	daemonSet struct {
		object `yaml:",inline"`
		Spec   struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			UpdateStrategy struct{ Type string } `yaml:"updateStrategy"`
			Template       podTemplate
		}
	}
	job struct {
		object `yaml:",inline"`
		Spec   jobSpec
	}
	jobSet struct {
		object `yaml:",inline"`
		Spec   struct {
			FailurePolicy struct {
				MaxRestarts int `yaml:"maxRestarts"`
			} `yaml:"failurePolicy"`
			ReplicatedJobs []struct {
				Name     string
				Replicas int
				Template struct{ Spec jobSpec }
			} `yaml:"replicatedJobs"`
		}
	}
	kustomization struct {
		object    `yaml:",inline"`
		Resources []string
		Patches   []struct{ Path string }
	}
	jobSpec struct {
		CompletionMode           string `yaml:"completionMode"`
		Completions, Parallelism int
		BackoffLimit             *int   `yaml:"backoffLimit"`
		PodReplacementPolicy     string `yaml:"podReplacementPolicy"`
		Template                 podTemplate
	}
	podTemplate struct {
		Metadata meta
		Spec     podSpec
	}
	podSpec struct {
		HostNetwork                  bool   `yaml:"hostNetwork"`
		HostPID                      bool   `yaml:"hostPID"`
		DNSPolicy                    string `yaml:"dnsPolicy"`
		RestartPolicy                string `yaml:"restartPolicy"`
		PriorityClassName            string `yaml:"priorityClassName"`
		AutomountServiceAccountToken *bool  `yaml:"automountServiceAccountToken"`
		TerminationGracePeriod       int    `yaml:"terminationGracePeriodSeconds"`
		Containers                   []container
		Volumes                      []volume
	}
	container struct {
		Name, Image string
		Args        []string
		Env         []variable
		Ports       []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
			HostPort      int `yaml:"hostPort"`
			Protocol      string
		}
		ReadinessProbe struct {
			Exec          struct{ Command []string }
			PeriodSeconds int `yaml:"periodSeconds"`
		} `yaml:"readinessProbe"`
		SecurityContext securityContext `yaml:"securityContext"`
		Resources       struct{ Requests map[string]string }
		VolumeMounts    []mount `yaml:"volumeMounts"`
	}
	variable struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	securityContext struct {
		RunAsNonRoot             bool  `yaml:"runAsNonRoot"`
		RunAsUser                *int  `yaml:"runAsUser"`
		RunAsGroup               *int  `yaml:"runAsGroup"`
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop, Add []string }
		SeccompProfile           struct{ Type string } `yaml:"seccompProfile"`
	}
	mount struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		SubPath   string `yaml:"subPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	}
	volume struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		}
		HostPath struct{ Path, Type string } `yaml:"hostPath"`
	}
)

// read decodes the documents of a file, in order, into one value each.
func read(t *testing.T, file string, into ...any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsRune(text, '\t') {
		t.Errorf("%s has a tab; YAML indents by spaces", file)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	for i, v := range into {
		if err := d.Decode(v); err != nil {
			t.Fatalf("%s: document %d: %v", file, i+1, err)
		}
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Errorf("%s has more than %d documents (%v)", file, len(into), err)
	}
}

// is fails the test if an object has another API version or kind.
func (o object) is(t *testing.T, apiVersion, kind string) {
	t.Helper()
	if o.APIVersion != apiVersion || o.Kind != kind {
		t.Errorf("%s %s; expected %s %s", o.APIVersion, o.Kind, apiVersion, kind)
	}
}

// consistent fails the test if a pod mounts a volume that it does not have, or has more rights
// than Weft needs.
func (p podSpec) consistent(t *testing.T) {
	t.Helper()
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		t.Error("the pod gets a token of the cluster, which Weft does not need")
	}
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range p.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts the volume %q, which its pod does not have", c.Name, m.Name)
			}
			delete(volumes, m.Name)
		}
		s := c.SecurityContext
		if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem ||
			s.SeccompProfile.Type != "RuntimeDefault" || strings.Join(s.Capabilities.Drop, " ") != "ALL" {
			t.Errorf("container %s may do more than Weft needs: %+v", c.Name, s)
		}
	}
	for name := range volumes {
		t.Errorf("no container mounts the volume %s", name)
	}
}
