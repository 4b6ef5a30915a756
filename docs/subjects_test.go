package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	subjectLength = 72
	// lastFreeCommit is the last commit before the rule. The subjects up to it stay as they are.
	lastFreeCommit = "3a1a554c68adb415cd771f78e5aa0ebcc9377b4a"
)

// subjectForm is "area: text". An area is a package, a directory, a file, or a command of weft.
var subjectForm = regexp.MustCompile(`^(weft )?[\w./-]+(, (weft )?[\w./-]+)*: \S`)

// Without git, and in a clone that lacks the commit of the rule, there is nothing to check.
func TestSubjectsOfCommitsNameTheirArea(t *testing.T) {
	if _, err := git(t, "cat-file", "-e", lastFreeCommit+"^{commit}"); err != nil {
		t.Skipf("passed over: no git, no repository, or commit %.8s is not in it: %v", lastFreeCommit, err)
	}
	// A file that the test reads makes go test run it again after the next commit.
	os.ReadFile(filepath.Join(root, ".git", "logs", "HEAD"))
	log, err := git(t, "log", "--format=%h %s", lastFreeCommit+"..HEAD")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log) {
		hash, subject, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if why := wrongSubject(subject); why != "" {
			t.Errorf("%s %q: %s", hash, subject, why)
		}
	}
}

// git runs git in the repository.
func git(t *testing.T, args ...string) (string, error) {
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).Output()
	return string(out), err
}

// wrongSubject says what is wrong with the subject of a commit; "" means nothing.
func wrongSubject(subject string) string {
	switch n := utf8.RuneCountInString(subject); {
	case n > subjectLength:
		return "too long; expected at most 72 characters"
	case strings.HasPrefix(subject, "Merge "):
		return "a merge; expected a rebase"
	case !subjectForm.MatchString(subject):
		return "expected \"area: text\", such as \"nic, rel: retransmit the newest segment first\""
	}
	return ""
}

func TestASubjectHasAnAreaAndAText(t *testing.T) {
	for subject, right := range map[string]bool{
		"nic: drop a frame of another session":                 true,
		"nic, internal/rel: retransmit the newest first":       true,
		".ci/run: install the headers of MPICH, too":           true,
		"weft run, job: rewrite the help":                      true,
		"nic: " + strings.Repeat("é", 67):                      true,
		"nic: " + strings.Repeat("é", 68):                      false,
		"Let a unix socket that a killed server left give way": false,
		"two words: drop a frame":                              false,
		"nic,rel: drop a frame":                                false,
		"nic:drop a frame":                                     false,
		"nic: ":                                                false,
		"Merge branch 'main'":                                  false,
		"Merge x: y":                                           false,
	} {
		if why := wrongSubject(subject); (why == "") != right {
			t.Errorf("%q: %q; expected right to be %v", subject, why, right)
		}
	}
}
