// Package api is the HTTP contract: the OpenAPI document, and the Go types and chi router generated from it.
//
// The document comes first and the code follows it; a change of the contract is a change of openapi.yaml and a run of
// go generate. The package holds no handlers, checks no request and imports nothing else of paysaga.
package api

import (
	"context"
	_ "embed"
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml

// Document is the OpenAPI document as it is written, served at /openapi.yaml. It must not be changed.
//
//go:embed openapi.yaml
var Document []byte

// Load gives the parsed and validated document, examples included. It parses once; all callers share one document and must
// not change it. An error means that the program was built from a broken contract.
//
// Each element knows its line in the source (openapi3.Origin), so that readers can keep the order of the document.
func Load() (*openapi3.T, error) { return load() }

var load = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	loader.IncludeOrigin = true
	document, err := loader.LoadFromData(Document)
	if err != nil {
		return nil, fmt.Errorf("parse the OpenAPI document: %w", err)
	}
	if err := document.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("validate the OpenAPI document: %w", err)
	}
	return document, nil
})
