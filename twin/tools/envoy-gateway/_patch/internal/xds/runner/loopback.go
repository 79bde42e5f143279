package runner

import (
	"net/netip"
	"strings"
	"sync/atomic"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// onLoopback makes what is sent to an Envoy fit a machine on which pods are processes.
//
// A listener is bound to the address of the Envoy's own pod, which its bootstrap has as the node's metadata "address", and not
// to every interface. An address of the pod network is where its process listens. Nothing else is ever sent to.
func onLoopback(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(server, &loopbackStream{ServerStream: stream})
}

type loopbackStream struct {
	grpc.ServerStream
	address atomic.Value
}

func (s *loopbackStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	if request, is := message.(*discoveryv3.DeltaDiscoveryRequest); is {
		if address := request.GetNode().GetMetadata().GetFields()["address"].GetStringValue(); address != "" {
			s.address.Store(address)
		}
	}
	return nil
}

func (s *loopbackStream) SendMsg(message any) error {
	response, is := message.(*discoveryv3.DeltaDiscoveryResponse)
	if !is {
		return s.ServerStream.SendMsg(message)
	}
	address, _ := s.address.Load().(string)
	moved := proto.Clone(response).(*discoveryv3.DeltaDiscoveryResponse)
	for _, resource := range moved.Resources {
		if err := move(resource, address); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(moved)
}

func move(resource *discoveryv3.Resource, address string) error {
	if resource.GetResource() == nil {
		return nil
	}
	content, err := resource.Resource.UnmarshalNew()
	if err != nil {
		return err
	}
	switch content := content.(type) {
	case *listenerv3.Listener:
		bind(content.GetAddress(), address)
	case *clusterv3.Cluster:
		reach(content.GetLoadAssignment())
	case *endpointv3.ClusterLoadAssignment:
		reach(content)
	default:
		return nil
	}
	resource.Resource, err = anypb.New(content)
	return err
}

func bind(listener *corev3.Address, address string) {
	if socket := listener.GetSocketAddress(); socket != nil {
		socket.Address = address
	}
}

func reach(assignment *endpointv3.ClusterLoadAssignment) {
	for _, locality := range assignment.GetEndpoints() {
		for _, endpoint := range locality.GetLbEndpoints() {
			if socket := endpoint.GetEndpoint().GetAddress().GetSocketAddress(); socket != nil {
				socket.Address = onThisMachine(socket.Address)
			}
		}
	}
}

func onThisMachine(address string) string {
	if inPodNetwork, is := strings.CutPrefix(address, "10.244."); is {
		return "127.244." + inPodNetwork
	}
	if parsed, err := netip.ParseAddr(address); err == nil && !parsed.IsLoopback() {
		return "127.0.0.1"
	}
	return address
}
