// Dry-run creates of one object through an API server, as kubectl's client sends them: one connection with HTTP/2, kept.
//
// Each worker sends its next request when the last one was answered. What it prints is one line of JSON: the whole time
// in seconds, and each latency in microseconds in the order of the answers. An answer other than 201 ends it.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	var (
		url         = flag.String("url", "", "where the object is posted, with ?dryRun=All")
		authority   = flag.String("ca", "", "file with the API server's CA")
		credentials = flag.String("token-file", "", "file whose first field up to a comma is a bearer token")
		object      = flag.String("object", "", "file with the object as JSON")
		count       = flag.Int("count", 100, "requests")
		workers     = flag.Int("workers", 1, "requests at a time")
	)
	flag.Parse()
	if err := run(*url, *authority, *credentials, *object, *count, *workers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url, authority, credentials, object string, count, workers int) error {
	body, err := os.ReadFile(object)
	if err != nil {
		return err
	}
	line, err := os.ReadFile(credentials)
	if err != nil {
		return err
	}
	token, _, _ := strings.Cut(strings.TrimSpace(string(line)), ",")
	client, err := connect(authority)
	if err != nil {
		return err
	}
	sender := sender{client, url, "Bearer " + token, body}
	if err := sender.send(); err != nil { // the handshake is not part of the measurement
		return err
	}
	begun := time.Now()
	latencies, err := drive(sender, count, workers)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"seconds": time.Since(begun).Seconds(), "latencies": latencies})
}

func connect(authority string) (*http.Client, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: contains no certificate", authority)
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, Timeout: 30 * time.Second}, nil
}

type sender struct {
	client        *http.Client
	url           string
	authorization string
	body          []byte
}

func (s sender) send() error {
	request, err := http.NewRequest(http.MethodPost, s.url, bytes.NewReader(s.body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", s.authorization)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("the API server answered %s: %.500s", answer.Status, said)
	}
	return nil
}

// drive sends count requests by as many workers, and returns the microseconds of each.
func drive(sender sender, count, workers int) ([]int64, error) {
	var (
		next   atomic.Int64
		group  sync.WaitGroup
		lock   sync.Mutex
		spent  = make([]int64, 0, count)
		failed error
	)
	for range workers {
		group.Go(func() {
			for next.Add(1) <= int64(count) {
				begun := time.Now()
				err := sender.send()
				took := time.Since(begun).Microseconds()
				lock.Lock()
				spent, failed = append(spent, took), errors.Join(failed, err)
				lock.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return spent, failed
}
