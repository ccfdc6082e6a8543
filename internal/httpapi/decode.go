package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json/jsontext"

	"paysaga/api"
	"paysaga/internal/idempotency"
	"paysaga/saga"
)

// decode reads a request's body by the named schema of the contract into target. Its problems name every place that must
// be mended. A body means the same however it is written: names in any order, numbers as 10, 10.0 or 1e1.
func (s *server) decode(w http.ResponseWriter, r *http.Request, schema string, target any) error {
	if err := checkContentType(r.Header); err != nil {
		return err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	return s.decodeBody(body, schema, target)
}

// decodeIfAny is decode for a body that may be missing. The target stays as it is then.
func (s *server) decodeIfAny(w http.ResponseWriter, r *http.Request, schema string, target any) error {
	body, err := s.readBody(w, r)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := checkContentType(r.Header); err != nil {
		return err
	}
	return s.decodeBody(body, schema, target)
}

func (s *server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, newProblem(bodyTooLarge, "The body has more than %d bytes.", tooLarge.Limit)
	}
	if err != nil {
		return nil, newProblem(invalidRequest, "The body did not arrive whole.")
	}
	return body, nil
}

func (s *server) decodeBody(body []byte, schema string, target any) error {
	value, err := canonical(body)
	if err != nil {
		return err
	}
	if err := refuseWhatIsNotKept(body); err != nil {
		return err
	}
	if err := s.checkSchema(schema, value); err != nil {
		return err
	}
	if err := json.Unmarshal(value, target); err != nil {
		return newProblem(invalidRequest, "The body does not fit the contract.")
	}
	return nil
}

// canonical checks the syntax, refuses names that come twice and anything after the value, and gives the one way to write
// the value (RFC 8785).
func canonical(body []byte) (jsontext.Value, error) {
	value := jsontext.Value(slices.Clone(body))
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil, newProblem(invalidRequest, "The body is empty.")
	}
	err := value.Canonicalize()
	if err == nil {
		return value, nil
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return nil, newProblem(invalidRequest, "The body is not valid JSON.")
	}
	detail := fmt.Sprintf("The body is not valid JSON at byte %d: %v.", syntax.ByteOffset, syntax.Err)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		detail = "A name comes twice; which value is meant cannot be told."
	}
	return nil, badPlace(syntax.JSONPointer, detail)
}

// longestPointer bounds the place that an error names; a longer one than this helps nobody to find it.
const longestPointer = 256

func badPlace(pointer jsontext.Pointer, detail string) *problem {
	if len(pointer) > longestPointer {
		pointer = ""
	}
	return &problem{kind: invalidRequest, detail: detail, errors: []api.FieldError{{Pointer: string(pointer), Detail: detail}}}
}

// refuseWhatIsNotKept refuses what a valid body may have and could not be kept as it is: U+0000 in texts and names, which the
// database cannot hold, and numbers that a float64, on the way to the canonical form, would round.
func refuseWhatIsNotKept(body []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return newProblem(invalidRequest, "The body is not valid JSON.")
		}
		switch {
		case token.Kind() == '"' && strings.ContainsRune(token.String(), 0):
			return badPlace(decoder.StackPointer(), "The character U+0000 cannot be kept.")
		case token.Kind() == '0' && !exact(token.String()):
			return badPlace(decoder.StackPointer(), "The number has more digits than can be kept exactly.")
		}
	}
}

// exact reports whether a float64 holds a number as it is written. Anything longer than needed for that is not looked at.
func exact(number string) bool {
	const longest = 32
	approximate, err := strconv.ParseFloat(number, 64)
	if err != nil || len(number) > longest || (approximate != 0 && (math.Abs(approximate) > 1e30 || math.Abs(approximate) < 1e-30)) {
		return false
	}
	written, ok := new(big.Rat).SetString(number)
	kept, _ := new(big.Rat).SetString(strconv.FormatFloat(approximate, 'g', -1, 64))
	return ok && kept != nil && written.Cmp(kept) == 0
}

// checkContentType wants plain JSON, which is UTF-8.
func checkContentType(header http.Header) error {
	mediaType, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || mediaType != jsonContentType {
		return newProblem(unsupportedMediaType, "Send the body as JSON, with Content-Type: application/json.")
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return newProblem(unsupportedMediaType, "JSON is written in UTF-8; other character sets are not read.")
	}
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return newProblem(unsupportedMediaType, "Send the body as it is, without Content-Encoding.")
	}
	return nil
}

// maxFieldErrors bounds how much of a hopeless body is explained.
const maxFieldErrors = 20

func (s *server) checkSchema(name string, value jsontext.Value) error {
	var generic any
	decoder := json.NewDecoder(strings.NewReader(string(value)))
	decoder.UseNumber()
	if err := decoder.Decode(&generic); err != nil {
		return newProblem(invalidRequest, "The body is not valid JSON.")
	}
	err := s.document.Components.Schemas[name].Value.VisitJSON(generic, openapi3.MultiErrors(), openapi3.VisitAsRequest())
	if err == nil {
		return nil
	}
	places := fieldErrors(err)
	slices.SortFunc(places, func(a, b api.FieldError) int { return strings.Compare(a.Pointer+a.Detail, b.Pointer+b.Detail) })
	places = slices.Compact(places)
	return &problem{
		kind: invalidRequest, detail: summary(places), errors: places[:min(len(places), maxFieldErrors)],
	}
}

// fieldErrors flattens the validator's errors.
func fieldErrors(err error) []api.FieldError {
	var one *openapi3.SchemaError
	switch known := err.(type) { //nolint:errorlint // an error about a choice holds those of its branches, and it is the outer one that tells
	case openapi3.MultiError:
		places := make([]api.FieldError, 0, len(known))
		for _, one := range known {
			places = append(places, fieldErrors(one)...)
		}
		return places
	case *openapi3.SchemaError:
		one = known
	default:
		return []api.FieldError{{Detail: "The body does not fit the contract."}}
	}
	pointer := jsontext.Pointer("")
	for _, part := range one.JSONPointer() {
		pointer = pointer.AppendToken(part)
	}
	if choice := choiceError(one, pointer); choice != nil {
		return choice
	}
	if unknown := unknownFields(one, pointer); len(unknown) > 0 {
		return unknown
	}
	return []api.FieldError{{Pointer: string(pointer), Detail: sentence(one.Reason)}}
}

// choiceError tells of fields of which one is needed, or that exclude each other; nil for an error about anything else. The
// contract says so by what "oneOf" and "not" require.
func choiceError(err *openapi3.SchemaError, object jsontext.Pointer) []api.FieldError {
	var choice []string
	switch err.SchemaField {
	case "oneOf":
		for _, branch := range err.Schema.OneOf {
			choice = append(choice, branch.Value.Required...)
		}
	case "not":
		choice = err.Schema.Not.Value.Required
	default:
		return nil
	}
	fields, ok := err.Value.(map[string]any)
	if !ok || len(choice) == 0 {
		return []api.FieldError{{Pointer: string(object), Detail: "Value must be an object."}}
	}
	given := slices.DeleteFunc(slices.Clone(choice), func(name string) bool { _, given := fields[name]; return !given })
	if len(given) == 0 {
		detail := "Either " + strings.Join(choice, " or ") + " is needed."
		return []api.FieldError{{Pointer: string(object.AppendToken(choice[0])), Detail: detail}}
	}
	detail := strings.Join(given, " and ") + " exclude each other."
	return []api.FieldError{{Pointer: string(object.AppendToken(given[len(given)-1])), Detail: strings.ToUpper(detail[:1]) + detail[1:]}}
}

// unknownFields names the fields that a closed object must not have; the validator names the object alone.
func unknownFields(err *openapi3.SchemaError, object jsontext.Pointer) []api.FieldError {
	fields, ok := err.Value.(map[string]any)
	if !ok || err.SchemaField != "properties" {
		return nil
	}
	var places []api.FieldError
	for name := range fields {
		if _, known := err.Schema.Properties[name]; !known {
			places = append(places, api.FieldError{Pointer: string(object.AppendToken(name)), Detail: "There is no such field."})
		}
	}
	return places
}

// sentence makes the validator's reason one: "Number must be at least 1.".
func sentence(reason string) string {
	if reason == "" {
		return "This does not fit the contract."
	}
	return strings.ToUpper(reason[:1]) + strings.TrimSuffix(reason[1:], ".") + "."
}

func summary(places []api.FieldError) string {
	first := places[0]
	where := first.Pointer
	if where == "" {
		where = "The body"
	}
	text := where + ": " + first.Detail
	if more := len(places) - 1; more > 0 {
		text += fmt.Sprintf(" And %d more.", more)
	}
	return text
}

// checkParameters holds the parameters of the path and the query against the contract; the generated code has checked
// their types alone.
func (s *server) checkParameters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		item := s.document.Paths.Find(route(r))
		if item == nil || item.GetOperation(r.Method) == nil {
			next.ServeHTTP(w, r)
			return
		}
		operation := item.GetOperation(r.Method)
		input := &openapi3filter.RequestValidationInput{
			Request: r, PathParams: pathParameters(r),
			Route: &routers.Route{Spec: s.document, PathItem: item, Method: r.Method, Operation: operation},
		}
		for _, parameter := range operation.Parameters {
			if parameter.Value.In == openapi3.ParameterInHeader {
				continue // the Idempotency-Key has a parser of its own
			}
			err := openapi3filter.ValidateParameter(r.Context(), input, parameter.Value)
			if err != nil && operation.Responses.Status(http.StatusBadRequest) == nil {
				err = saga.ErrNotFound // where nothing can be mended, a malformed name is one that does not exist
			} else if err != nil {
				err = parameterProblem(parameter.Value.Name, err)
			}
			if err != nil {
				s.fail(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func pathParameters(r *http.Request) map[string]string {
	parameters := chi.RouteContext(r.Context()).URLParams
	values := make(map[string]string, len(parameters.Keys))
	for i, key := range parameters.Keys {
		values[key] = parameters.Values[i]
		if decoded, err := url.PathUnescape(parameters.Values[i]); err == nil {
			values[key] = decoded
		}
	}
	return values
}

func parameterProblem(name string, err error) *problem {
	detail := "The value does not fit the contract."
	if schema, ok := errors.AsType[*openapi3.SchemaError](err); ok {
		detail = sentence(schema.Reason)
	}
	return badParameter(name, detail)
}

func badParameter(name, detail string) *problem {
	return &problem{
		kind: invalidRequest, detail: name + ": " + detail, errors: []api.FieldError{{Parameter: name, Detail: detail}},
	}
}

// ids are the parameters of paths that name something, which a malformed one does not.
var ids = map[string]string{"id": "An order's id", "refund_id": "A refund's id", "saga": "A saga's key"}

// failParameter answers for the generated code, which could not read a parameter.
func (s *server) failParameter(w http.ResponseWriter, r *http.Request, err error) {
	var missing *api.RequiredHeaderError
	var several *api.TooManyValuesForParamError
	var malformed *api.InvalidParamFormatError
	switch {
	case errors.As(err, &missing) && missing.ParamName == keyHeader,
		errors.As(err, &several) && several.ParamName == keyHeader,
		errors.As(err, &malformed) && malformed.ParamName == keyHeader:
		if _, err := idempotency.ParseKey(r.Header.Values(keyHeader)); err != nil {
			s.fail(w, r, err)
			return
		}
	case errors.As(err, &malformed) && ids[malformed.ParamName] != "":
		s.fail(w, r, newProblem(notFound, "%s is a UUID; this is none.", ids[malformed.ParamName]))
		return
	case errors.As(err, &malformed):
		s.fail(w, r, parameterProblem(malformed.ParamName, err))
		return
	}
	s.fail(w, r, newProblem(invalidRequest, "A parameter cannot be read."))
}
