// Command generate writes the golden files beside it: what Kubeflow Trainer itself does with torch and torchtune jobs.
//
// Muster's strategies take over work that Trainer does in Go. The files let Python tests compare the two without a Go
// tool chain; this program makes them by calling the released code: the runtime objects through which its webhook
// validates and its controller builds JobSets. It also checks that our mirrors of upstream's runtimes still are mirrors.
//
// `make upstream FRAMEWORK=trainer` runs it, with a module file and the tags of the version that it takes in.
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
	manifests := flag.String("manifests", "", "folder of our runtimes")
	out := flag.String("out", "", "folder that holds torch/ and torchtune/")
	flag.Parse()
	if err := generate(context.Background(), *manifests, *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, manifests, out string) error {
	if *whole {
		if err := checkMirrors(manifests); err != nil {
			return err
		}
	}
	runtimes, err := tuneRuntimes(manifests)
	if err != nil {
		return err
	}
	if err := write(ctx, filepath.Join(out, "torchtune"), runtimes, tuneCases()); err != nil {
		return err
	}
	return write(ctx, filepath.Join(out, "torch"), torchRuntimes(), torchCases())
}

// known are the lines of the shipped Trainer's file, which another one leaves out.
func known(folder string) (map[string]bool, string, error) {
	found := map[string]bool{}
	shipped := filepath.Join(folder, "cases.json")
	if *whole {
		return found, shipped, nil
	}
	raw, err := os.ReadFile(shipped)
	for each := range strings.SplitSeq(string(raw), "\n") {
		found[strings.TrimSuffix(each, ",")] = true
	}
	return found, filepath.Join(folder, minor()+".json"), err
}

// write evaluates the cases and lays them out one per line, so that a change of one is a change of one line.
func write(ctx context.Context, folder string, runtimes map[string]document, cases []testCase) error {
	same, path, err := known(folder)
	if err != nil {
		return err
	}
	var rows, answers []string
	for _, key := range sortedKeys(runtimes) {
		if row := line(key) + ": " + line(runtimes[key]); !same[row] {
			rows = append(rows, row)
		}
	}
	for _, entry := range cases {
		if strings.HasSuffix(folder, "torchtune") && !*whole && !strings.HasPrefix(entry.Name, "sample") {
			continue // one part of them shows what differs
		}
		result, err := evaluate(ctx, runtimes[entry.Runtime], entry.TrainJob)
		if err != nil {
			return fmt.Errorf("case %q: %w", entry.Name, err)
		}
		entry.outcome = result
		if row := line(entry); !same[row] {
			answers = append(answers, row)
		}
	}
	file := fmt.Sprintf("{\"trainer\": %q,\n\"runtimes\": {\n%s\n},\n\"cases\": [\n%s\n]}\n", release(),
		strings.Join(rows, ",\n"), strings.Join(answers, ",\n"))
	fmt.Printf("%s: %d runtimes, %d of %d cases, %d bytes\n", path, len(rows), len(answers), len(cases), len(file))
	return os.WriteFile(path, []byte(file), 0o644)
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
