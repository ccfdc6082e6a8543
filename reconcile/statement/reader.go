package statement

import (
	"errors"
	"io"
	"maps"
	"slices"
)

// maxHeld is how many rows are kept back until a number tells how the file writes numbers. Beyond it the oldest ones are read as they are.
const maxHeld = 1000

// format reads the rows of one kind of file.
type format interface {
	// learn looks at a row's numbers, and tells whether it is known now how the file writes them.
	learn(read row) (settled bool)
	// read takes a row, and hands out the lines that it makes ready.
	read(read row, emit func(Line)) error
	// end hands out what was kept back to the end of the file.
	end(emit func(Line))
	// controls are the file's own figures against the lines.
	controls() []Control
}

// Reader reads a settlement file. Its memory does not grow with the file. It is not safe for concurrent use.
type Reader struct {
	provider string
	name     string
	rows     *rowReader
	format   format
	again    header // a row that repeats it is none
	netTold  bool
	ready    []Line // to be handed out
	taken    int    // of these
	held     []row
	tally    tally
	ended    bool
	err      error
}

// Next gives the next line, and io.EOF after the last one. Each line's number is higher than that of the one before. Rows that cannot be
// read are passed over, and are in the Report. Any other error is the source's: the file was not read to its end.
func (r *Reader) Next() (Line, error) {
	for {
		if r.taken < len(r.ready) {
			line := r.ready[r.taken]
			r.taken++
			r.tally.line(&line)
			return line, nil
		}
		r.ready, r.taken = r.ready[:0], 0
		if r.err != nil {
			return Line{}, r.err
		}
		r.step()
	}
}

// step reads a row.
func (r *Reader) step() {
	read, err := r.rows.next()
	var faulty *rowError
	switch {
	case errors.As(err, &faulty):
		r.tally.fault(faultOf(faulty.number, err))
	case errors.Is(err, io.EOF):
		r.finish()
	case err != nil:
		r.err = err
	case r.again.equals(read.fields):
	default:
		r.take(read)
	}
}

// take reads a row at once, or keeps it back until it is known how the file writes numbers. Rows keep their order.
func (r *Reader) take(read row) {
	if !r.format.learn(read) {
		r.held = append(r.held, read.clone())
		if len(r.held) > maxHeld {
			r.read(r.held[0])
			r.held = slices.Delete(r.held, 0, 1)
		}
		return
	}
	r.release()
	r.read(read)
}

// release reads the rows that were kept back.
func (r *Reader) release() {
	for _, read := range r.held {
		r.read(read)
	}
	r.held = nil
}

func (r *Reader) read(read row) {
	if err := r.format.read(read, r.emit); err != nil {
		r.tally.fault(faultOf(read.number, err))
	}
}

func (r *Reader) finish() {
	r.release()
	r.format.end(r.emit)
	r.ended, r.err = true, io.EOF
}

func (r *Reader) emit(line Line) { r.ready = append(r.ready, line) }

// Report is what reading has come to so far. The controls are there once Next has given io.EOF: before it, they would hold only by chance.
func (r *Reader) Report() Report {
	report := Report{
		Provider: r.provider, Format: r.name,
		Lines: r.tally.lines, Malformed: r.tally.malformed, Faults: slices.Clone(r.tally.faults),
		Totals: maps.Clone(r.tally.totals),
		From:   r.tally.from, Until: r.tally.until,
	}
	if r.ended {
		controls := r.format.controls()
		if r.netTold {
			controls = append(controls, r.tally.netControls()...)
		}
		report.Controls = arranged(controls)
	}
	return report
}
