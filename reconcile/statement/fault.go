package statement

import (
	"errors"
	"fmt"
)

// rowError is why a row as a whole cannot be read.
type rowError struct {
	number int
	reason string
}

// Error tells the row and the reason.
func (e *rowError) Error() string { return fmt.Sprintf("line %d %s", e.number, e.reason) }

// fieldError is why a field of a row cannot be read. The reason goes on where the column's name ends, and never has the field's text: that
// may be of a person.
type fieldError struct {
	column string
	reason string
}

// Error tells the column and the reason.
func (e *fieldError) Error() string { return e.column + " " + e.reason }

// faultOf is an error of a row as the report tells it.
func faultOf(number int, err error) Fault {
	if whole, ok := errors.AsType[*rowError](err); ok {
		return Fault{Number: whole.number, Reason: "The line " + whole.reason + "."}
	}
	if field, ok := errors.AsType[*fieldError](err); ok && field.column != "" {
		return Fault{Number: number, Column: field.column, Reason: "The field " + field.reason + "."}
	}
	return Fault{Number: number, Reason: "The line " + err.Error() + "."}
}
