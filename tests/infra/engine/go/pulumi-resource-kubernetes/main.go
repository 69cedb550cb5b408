// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider, for the engine to find on PATH.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

// The build lays the provider module's own files here: they are 10 MB and belong to it.
var (
	//go:embed schema.json
	schema []byte
	//go:embed terraform-mapping.json
	mapping []byte
)

func main() {
	provider.Serve("kubernetes", version.Version, schema, mapping)
}
