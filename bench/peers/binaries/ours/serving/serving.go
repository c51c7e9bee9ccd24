// Package serving is what both of our webhooks have in common: controller-runtime's manager, as a new project has it, with
// TLS and its metrics.
package serving

import (
	"flag"
	"log"

	"github.com/go-logr/stdr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Serve answers at the given paths on loopback until it gets SIGTERM. --kubeconfig is defined by controller-runtime.
func Serve(known *runtime.Scheme, handlers map[string]admission.Handler) {
	port := flag.Int("port", 0, "TCP port on 127.0.0.1")
	observed := flag.String("metrics", "0", "address of /metrics, as 127.0.0.1:PORT")
	certificates := flag.String("certificates", "", "folder with tls.crt and tls.key")
	flag.Parse()
	ctrl.SetLogger(stdr.New(log.Default()))
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:        known,
		Metrics:       metrics.Options{BindAddress: *observed},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *certificates}),
	})
	if err != nil {
		log.Fatal(err)
	}
	for path, handler := range handlers {
		manager.GetWebhookServer().Register(path, &webhook.Admission{Handler: handler})
	}
	if err := manager.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
