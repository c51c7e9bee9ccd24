// Trainer's own status server, with an API server that prints what it is to apply.
//
//	statusserver CERTIFICATE KEY PORT TOKEN
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	configapi "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/statusserver"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type cluster struct{ client.Client }

type status struct{ client.SubResourceWriter }

func (cluster) Status() client.SubResourceWriter { return status{} }

func (status) Apply(_ context.Context, made runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return json.NewEncoder(os.Stdout).Encode(made)
}

type authorizer string

func (authorizer) Init(context.Context) error { return nil }

func (token authorizer) Authorize(_ context.Context, header, _, _ string) (bool, error) {
	known, err := os.ReadFile(string(token))
	return header == "Bearer "+string(known), err
}

func main() {
	pair, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	check(err)
	port, err := strconv.ParseInt(os.Args[3], 10, 32)
	check(err)
	number := int32(port)
	server, err := statusserver.NewServer(cluster{}, &configapi.StatusServer{Port: &number},
		&tls.Config{Certificates: []tls.Certificate{pair}}, authorizer(os.Args[4]))
	check(err)
	check(server.Start(context.Background()))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
