// Command keda-adapter is KEDA's metrics server: KEDA's own provider of external metrics behind the same API server library.
//
// KEDA's own main package also serves plain metrics, at a port of which only the number can be chosen: it would listen on
// every interface of the machine. That port is all that is missing here.
package main

import (
	"log"
	"os"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/kedacore/keda/v2/pkg/metricsservice"
	kedaprovider "github.com/kedacore/keda/v2/pkg/provider"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	basecmd "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	adapter := &basecmd.AdapterBase{Name: "keda-adapter"}
	operator := adapter.Flags().String("metrics-service-address", "", "where KEDA's operator answers for its scalers")
	if err := adapter.Flags().Parse(os.Args[1:]); err != nil {
		return err
	}
	config, err := adapter.ClientConfig()
	if err != nil {
		return err
	}
	kubernetes, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	certificates := adapter.SecureServing.ServerCert.CertDirectory
	metrics := grpcprom.NewClientMetrics()
	scalers, err := metricsservice.NewGrpcClient(ctx, *operator, certificates, "", "", metrics, false)
	if err != nil {
		return err
	}
	adapter.WithExternalMetrics(kedaprovider.NewProvider(ctx, ctrl.Log, kubernetes, *scalers))
	return adapter.Run(ctx)
}
