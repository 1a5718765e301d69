// Answers what kstatus makes of an object: one JSON object a line on stdin, one answer a line on stdout,
// `{"status": "Current", "message": "..."}` or `{"error": "..."}`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

// sources is stamped with the digest of this file, so that the cache tells one build from the next.
var sources string

func main() {
	_ = sources
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	for lines.Scan() {
		line, err := json.Marshal(judge(lines.Bytes()))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(line))
	}
}

func judge(line []byte) answer {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(line); err != nil {
		return answer{Error: err.Error()}
	}
	found, err := status.Compute(object)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Status: found.Status.String(), Message: found.Message}
}
