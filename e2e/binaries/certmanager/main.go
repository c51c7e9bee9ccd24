// cert-manager's controllers and its injector in one process, for the suite `releases`.
//
// The commands of cert-manager are modules without a release, so no proxy has them; the controllers that they start
// are packages of its main module, and register themselves. Here are those that a Certificate of a CA needs. Its
// webhook, which fills in defaults and refuses what is malformed, is not here, and neither is leader election.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"github.com/go-logr/stdr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cert-manager/cert-manager/pkg/api"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/util"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

func main() {
	flag.Parse() // --kubeconfig is defined by controller-runtime
	stdr.SetVerbosity(2)
	ctrl.SetLogger(stdr.New(log.Default()))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := control(ctx, flag.Lookup("kubeconfig").Value.String()); err != nil {
		log.Fatal(err)
	}
	if err := inject(ctx); err != nil {
		log.Fatal(err)
	}
}

// control starts every controller that has registered itself, and returns.
func control(ctx context.Context, kubeconfig string) error {
	contexts, err := controller.NewContextFactory(ctx, controller.ContextOptions{Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	shared, err := contexts.Build()
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		made, err := construct(contexts)
		if err != nil {
			return err
		}
		go func() {
			if err := made.Run(1, ctx); err != nil {
				log.Fatalf("%s: %v", name, err)
			}
		}()
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

// inject writes caBundle of webhook configurations until the context ends.
func inject(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	utilruntime.Must(api.AddToScheme(known))
	options := ctrl.Options{Scheme: known, Metrics: server.Options{BindAddress: "0"}}
	// Its name is also the owner of the fields that it writes.
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), options)
	if err != nil {
		return err
	}
	wanted := cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
		},
	}
	if err := cainjector.RegisterAllInjectors(ctx, manager, wanted); err != nil {
		return err
	}
	return manager.Start(ctx)
}
