//go:build !unix

package pgdev

import "context"

// Server is a PostgreSQL that was given by its URL: this operating system has no private ones.
type Server struct{ url string }

// Start gives ErrUnsupported.
func Start(context.Context, Options) (*Server, error) { return nil, ErrUnsupported }

// URL is where to connect.
func (s *Server) URL() string { return s.url }

// Done is nil: the server is not ours.
func (s *Server) Done() <-chan struct{} { return nil }

// Stop does nothing: the server is not ours.
func (s *Server) Stop(context.Context) error { return nil }

// Remove does nothing: the server is not ours.
func (s *Server) Remove(context.Context) error { return nil }

// RemoveAbandoned gives ErrUnsupported.
func RemoveAbandoned(context.Context, string) error { return ErrUnsupported }
