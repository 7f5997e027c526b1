// Extender is the peer that Topolog's speed is measured against: what a Go programmer writes in an
// afternoon with net/http, encoding/json and the official types. It keeps no state and decides
// nothing, so every nanosecond of it is transport, decoding and encoding.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	extender "k8s.io/kube-scheduler/extender/v1"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	cert := flag.String("cert", "", "server certificate, PEM")
	key := flag.String("key", "", "key of the server certificate, PEM")
	ca := flag.String("ca", "", "CA of the clients' certificates, PEM")
	http2 := flag.Bool("http2", false, "offer HTTP/2, as net/http does by itself; HTTP/1.1 was the faster one here")
	refuse := flag.String("refuse", "", "refuse every second node with this sentence; empty refuses none")
	server := flag.String("api-server", "", "URL of the API server; empty for no bind verb")
	serverCA := flag.String("api-ca", "", "CA of the API server, PEM")
	token := flag.String("api-token", "", "file that holds the token for the API server")
	flag.Parse()
	holdOnTo(os.Getenv("CONTROLPLANE_LIFELINE"))

	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", func(w http.ResponseWriter, r *http.Request) {
		respond(w, r, func(args *extender.ExtenderArgs) any { return filter(args, *refuse) })
	})
	mux.HandleFunc("POST /prioritize", func(w http.ResponseWriter, r *http.Request) {
		respond(w, r, prioritize)
	})
	if *server != "" {
		binder, err := newBinder(*server, *serverCA, *token)
		if err != nil {
			log.Fatal(err)
		}
		mux.HandleFunc("POST /bind", func(w http.ResponseWriter, r *http.Request) {
			respond(w, r, binder.bind)
		})
	}
	serving := &http.Server{Handler: mux}
	serving.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(*ca)}
	serving.Protocols = new(http.Protocols)
	serving.Protocols.SetHTTP1(true)
	serving.Protocols.SetHTTP2(*http2)
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("serving on https://%s\n", listener.Addr())
	if err := serving.ServeTLS(listener, *cert, *key); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

// respond decodes a call, has it answered and encodes the answer.
func respond[Args any](w http.ResponseWriter, r *http.Request, answer func(*Args) any) {
	var args Args
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := json.Marshal(answer(&args))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	_, _ = w.Write(out)
}

// filter keeps every node, or every second one: the least that can be called an answer.
func filter(args *extender.ExtenderArgs, refuse string) any {
	result := &extender.ExtenderFilterResult{Nodes: args.Nodes, NodeNames: args.NodeNames}
	if refuse == "" {
		return result
	}
	result.FailedAndUnresolvableNodes = extender.FailedNodesMap{}
	if args.NodeNames != nil {
		kept := make([]string, 0, len(*args.NodeNames))
		for i, name := range *args.NodeNames {
			if i%2 == 0 {
				kept = append(kept, name)
			} else {
				result.FailedAndUnresolvableNodes[name] = refuse
			}
		}
		result.NodeNames = &kept
	}
	if args.Nodes != nil {
		kept := make([]corev1.Node, 0, len(args.Nodes.Items))
		for i, node := range args.Nodes.Items {
			if i%2 == 0 {
				kept = append(kept, node)
			} else {
				result.FailedAndUnresolvableNodes[node.Name] = refuse
			}
		}
		result.Nodes = &corev1.NodeList{Items: kept}
	}
	return result
}

// prioritize scores a node by the length of its name.
func prioritize(args *extender.ExtenderArgs) any {
	scores := extender.HostPriorityList{}
	score := func(name string) {
		scores = append(scores, extender.HostPriority{Host: name, Score: int64(len(name) % 11)})
	}
	if args.NodeNames != nil {
		scores = make(extender.HostPriorityList, 0, len(*args.NodeNames))
		for _, name := range *args.NodeNames {
			score(name)
		}
	} else if args.Nodes != nil {
		scores = make(extender.HostPriorityList, 0, len(args.Nodes.Items))
		for i := range args.Nodes.Items {
			score(args.Nodes.Items[i].Name)
		}
	}
	return scores
}

func pool(path string) *x509.CertPool {
	content, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	found := x509.NewCertPool()
	if !found.AppendCertsFromPEM(content) {
		log.Fatalf("%s holds no certificate", path)
	}
	return found
}

// holdOnTo ends this process when the other end of a pipe closes: no peer outlives who started it.
func holdOnTo(descriptor string) {
	number, err := strconv.Atoi(descriptor)
	if err != nil {
		return
	}
	go func() {
		_, _ = os.NewFile(uintptr(number), "lifeline").Read(make([]byte, 1))
		os.Exit(1)
	}()
}
