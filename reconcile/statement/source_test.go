package statement_test

import "io"

// chunks gives its content in pieces of changing size, as a network does.
type chunks struct {
	content []byte
	size    int
}

func newChunks(content []byte) *chunks { return &chunks{content: content, size: 1} }

func (c *chunks) Read(into []byte) (int, error) {
	if len(c.content) == 0 {
		return 0, io.EOF
	}
	c.size = c.size%97 + 1
	count := copy(into[:min(c.size, len(into))], c.content)
	c.content = c.content[count:]
	return count, nil
}
