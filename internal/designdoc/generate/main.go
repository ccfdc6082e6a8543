// Command generate writes docs/idempotency-design.html. Its argument is the project's folder.
package main

import (
	"fmt"
	"os"
	"time"

	"paysaga/internal/designdoc"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FOLDER")
		os.Exit(2)
	}
	if err := designdoc.Write(os.Args[1], time.Now().UTC()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
