// Command generate writes the golden files beside it: what Kubeflow Trainer v2.3.0 itself does with torch and torchtune jobs.
//
// Muster's strategies take over work that Trainer does in Go. The files let Python tests compare the two without a Go
// tool chain; this program makes them by calling the released code: the runtime objects through which its webhook
// validates and its controller builds JobSets. It also checks that our mirrors of upstream's runtimes still are mirrors.
//
//	go run . -manifests ../../../manifests/runtimes -out ..
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	manifests := flag.String("manifests", "../../../manifests/runtimes", "folder of our runtimes")
	out := flag.String("out", "..", "folder that holds torch/ and torchtune/")
	flag.Parse()
	if err := generate(context.Background(), *manifests, *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, manifests, out string) error {
	if err := checkMirrors(manifests); err != nil {
		return err
	}
	runtimes, err := tuneRuntimes(manifests)
	if err != nil {
		return err
	}
	if err := write(ctx, filepath.Join(out, "torchtune", "cases.json"), runtimes, tuneCases()); err != nil {
		return err
	}
	return write(ctx, filepath.Join(out, "torch", "cases.json"), torchRuntimes(), torchCases())
}

// write evaluates the cases and lays them out one per line, so that a change of one is a change of one line.
func write(ctx context.Context, path string, runtimes map[string]document, cases []testCase) error {
	var file bytes.Buffer
	file.WriteString("{\"trainer\": \"v2.3.0\",\n\"runtimes\": {\n")
	for index, key := range sortedKeys(runtimes) {
		fmt.Fprintf(&file, "%s%s: %s", separator(index), line(key), line(runtimes[key]))
	}
	file.WriteString("\n},\n\"cases\": [\n")
	for index, entry := range cases {
		result, err := evaluate(ctx, runtimes[entry.Runtime], entry.TrainJob)
		if err != nil {
			return fmt.Errorf("case %q: %w", entry.Name, err)
		}
		entry.outcome = result
		fmt.Fprintf(&file, "%s%s", separator(index), line(entry))
	}
	file.WriteString("\n]}\n")
	fmt.Printf("%s: %d runtimes, %d cases, %d bytes\n", path, len(runtimes), len(cases), file.Len())
	return os.WriteFile(path, file.Bytes(), 0o644)
}

func separator(index int) string {
	if index == 0 {
		return ""
	}
	return ",\n"
}

// line is JSON without the escapes that Go adds for browsers; what comes here always marshals.
func line(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSpace(out.String())
}

// runtimeName is the name before the slash of a runtime's key.
func runtimeName(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

func sortedKeys[K cmp.Ordered, V any](from map[K]V) []K {
	return slices.Sorted(maps.Keys(from))
}
