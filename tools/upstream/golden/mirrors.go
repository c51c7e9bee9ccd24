package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// mirrored says which of our runtimes keep the contract of an upstream file, which lies below manifests/base/runtimes there.
var mirrored = map[string]string{
	"torch-distributed":      "torch_distributed",
	"torchtune-llama3.2-1b":  "torchtune/llama3_2/llama3_2_1B",
	"torchtune-llama3.2-3b":  "torchtune/llama3_2/llama3_2_3B",
	"torchtune-qwen2.5-1.5b": "torchtune/qwen2_5/qwen2_5_1.5B",
}

// kubeflowTag is dropped before comparing: upstream's base files have none, its overlays add the release.
var kubeflowTag = regexp.MustCompile(`^(ghcr\.io/kubeflow/[^:]+):.+$`)

// checkMirrors compares our mirrors with the files of the Trainer module; any difference but an image tag is an error.
func checkMirrors(manifests string) error {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kubeflow/trainer/v2").Output()
	if err != nil {
		return fmt.Errorf("finding Trainer's module folder: %w", err)
	}
	upstream := filepath.Join(strings.TrimSpace(string(out)), "manifests", "base", "runtimes")
	var problems []error
	for _, name := range sortedKeys(mirrored) {
		ours, err := readRuntime(manifests, name)
		if err != nil {
			return err
		}
		theirs, err := readRuntime(upstream, mirrored[name])
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(withoutTags(ours), withoutTags(theirs)) {
			problems = append(problems, fmt.Errorf("runtime %s no longer mirrors upstream's %s.yaml", name, mirrored[name]))
		}
	}
	return errors.Join(problems...)
}

func withoutTags(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		out := document{}
		for key, entry := range typed {
			out[key] = withoutTags(entry)
		}
		return out
	case []any:
		out := make([]any, 0, len(typed))
		for _, entry := range typed {
			out = append(out, withoutTags(entry))
		}
		return out
	case string:
		return kubeflowTag.ReplaceAllString(typed, "$1")
	default:
		return value
	}
}
