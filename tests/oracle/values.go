package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	kubeyaml "sigs.k8s.io/yaml"
)

// An overrideOp is an override whose value was rendered already. Value may be any JSON where it is not parsed.
type overrideOp struct {
	Type       string  `json:"type"`
	Path       *string `json:"path"`
	Value      any     `json:"value"`
	ParseValue bool    `json:"parseValue"`
}

// answerOverride goes the way of the original: JSON, YAML, go-patch, YAML, JSON.
func answerOverride(asked question) (any, error) {
	definitions, err := define(asked.Ops)
	if err != nil {
		return nil, err
	}
	text, err := kubeyaml.JSONToYAML(asked.Document)
	if err != nil {
		return nil, err
	}
	operations, err := patch.NewOpsFromDefinitions(definitions)
	if err != nil {
		return nil, err
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	patched, err := operations.Apply(document)
	if err != nil {
		return nil, err
	}
	return store(patched)
}

func define(given []overrideOp) ([]patch.OpDefinition, error) {
	var definitions []patch.OpDefinition
	for _, op := range given {
		definition := patch.OpDefinition{Type: op.Type, Path: op.Path}
		value := op.Value
		if op.ParseValue {
			text, _ := op.Value.(string)
			value = nil
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				return nil, fmt.Errorf("value: %w", err)
			}
		}
		if op.Type == "replace" {
			definition.Value = &value
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// store writes a value as YAML and reads it as the API machinery does, into JSON.
func store(value any) (any, error) {
	text, err := yaml.Marshal(value)
	if err != nil {
		return nil, err
	}
	stored, err := kubeyaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := kubejson.Unmarshal(stored, &plain); err != nil {
		return nil, err
	}
	return plain, nil
}

// answerYAML gives what is stored of a parsed value, and what yaml.v2 itself read, with its Go types.
func answerYAML(asked question) (any, error) {
	var value any
	if err := yaml.Unmarshal([]byte(asked.Text), &value); err != nil {
		return nil, err
	}
	read := describe(value)
	stored, err := store(value)
	if err != nil {
		return nil, err
	}
	return map[string]any{"read": read, "stored": stored, "more": hasMore(asked.Text)}, nil
}

// hasMore says whether anything stands behind the first document, which Unmarshal does not look at.
func hasMore(text string) bool {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var value any
	if decoder.Decode(&value) != nil {
		return false
	}
	return decoder.Decode(&value) != io.EOF
}

// describe spells a value as [Go type, text or children], which no JSON reader can round.
func describe(value any) any {
	switch typed := value.(type) {
	case nil:
		return []any{"nil", nil}
	case map[any]any:
		pairs := []any{}
		for key, item := range typed {
			pairs = append(pairs, []any{describe(key), describe(item)})
		}
		return []any{"map", pairs}
	case []any:
		items := []any{}
		for _, item := range typed {
			items = append(items, describe(item))
		}
		return []any{"list", items}
	default:
		return []any{fmt.Sprintf("%T", value), fmt.Sprint(value)}
	}
}

func kubeDecode(raw json.RawMessage) (any, error) {
	var document any
	return document, kubejson.Unmarshal(raw, &document)
}
