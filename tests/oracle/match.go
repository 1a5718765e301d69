package main

import (
	"encoding/json"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// answerGjson looks a path up in the document as Go writes it: keys sorted, `<`, `>` and `&` escaped.
func answerGjson(asked question) (any, error) {
	document, err := kubeDecode(asked.Document)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	found := gjson.GetBytes(text, asked.Path)
	return map[string]any{
		"exists": found.Exists(), "type": found.Type.String(), "raw": found.Raw,
		"string": found.String(), "int": found.Int(),
	}, nil
}

func answerSelector(asked question) (any, error) {
	wanted := &metav1.LabelSelector{}
	if err := json.Unmarshal(asked.Selector, wanted); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(wanted)
	if err != nil {
		return nil, err
	}
	return selector.Matches(labels.Set(asked.Labels)), nil
}
