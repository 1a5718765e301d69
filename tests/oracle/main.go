// The oracle answers what the Go libraries that the original links make of a case: one JSON object a line on stdin,
// one answer a line on stdout, `{"ok": true, "value": ...}` or `{"ok": false, "error": "..."}`.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// A question carries the fields of every operation; each reads its own.
type question struct {
	Op       string            `json:"op"`
	Source   string            `json:"source"`
	Data     templateData      `json:"data"`
	Option   string            `json:"option"`
	Document json.RawMessage   `json:"document"`
	Path     string            `json:"path"`
	Ops      []overrideOp      `json:"ops"`
	Text     string            `json:"text"`
	Selector json.RawMessage   `json:"selector"`
	Labels   map[string]string `json:"labels"`
}

type answer struct {
	OK    bool   `json:"ok"`
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

var operations = map[string]func(question) (any, error){
	"template":  answerTemplate,
	"functions": answerFunctions,
	"override":  answerOverride,
	"gjson":     answerGjson,
	"selector":  answerSelector,
	"yaml":      answerYAML,
}

// sources is stamped with the digest of these files, so that the cache tells one build from the next.
var sources string

func main() {
	_ = sources
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	output := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		_, _ = output.Write(encode(respond(lines.Bytes())))
		_ = output.Flush()
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// respond turns a panic of a library into an error: so does whoever calls it under a recovering reconciler.
func respond(line []byte) (said answer) {
	defer func() {
		if recovered := recover(); recovered != nil {
			said = answer{Error: fmt.Sprintf("panic: %v", recovered)}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: "the case cannot be read: " + err.Error()}
	}
	operation, known := operations[asked.Op]
	if !known {
		return answer{Error: "there is no operation " + asked.Op}
	}
	value, err := operation(asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{OK: true, Value: value}
}

func encode(said answer) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(said); err != nil {
		buffer.Reset()
		_ = encoder.Encode(answer{Error: "the answer cannot be written: " + err.Error()})
	}
	return buffer.Bytes()
}
