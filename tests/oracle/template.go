package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/Masterminds/sprig"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// templateData is what a value is rendered with. Typed makes .Object the Go type of its kind, where we know it here,
// as the original does for kinds in its scheme; else it is unstructured.
type templateData struct {
	Object       json.RawMessage `json:"Object"`
	Typed        bool            `json:"typed"`
	Cluster      json.RawMessage `json:"Cluster"`
	LocalCluster json.RawMessage `json:"LocalCluster"`
}

// impure are the functions that read the process, the network, the clock or randomness.
var impure = []string{
	"env", "expandenv", "getHostByName",
	"now", "ago", "date", "date_in_zone", "date_modify", "dateInZone", "dateModify", "htmlDate", "htmlDateInZone",
	"randAlphaNum", "randAlpha", "randAscii", "randNumeric", "shuffle", "uuidv4",
	"genPrivateKey", "genCA", "genSelfSignedCert", "genSignedCert", "buildCustomCert", "encryptAES",
}

func pureFunctions() template.FuncMap {
	functions := sprig.TxtFuncMap()
	for _, name := range impure {
		delete(functions, name)
	}
	return functions
}

// answerFunctions lists the names that a template may call, beside text/template's own.
func answerFunctions(question) (any, error) {
	var names []string
	for name := range pureFunctions() {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

func answerTemplate(asked question) (any, error) {
	data, err := asked.Data.build()
	if err != nil {
		return nil, err
	}
	parsed := template.New("").Funcs(pureFunctions())
	if asked.Option != "" {
		parsed = parsed.Option(asked.Option)
	}
	if parsed, err = parsed.Parse(asked.Source); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, data); err != nil {
		return nil, err
	}
	if !utf8.Valid(text.Bytes()) {
		return map[string]any{"invalidUTF8": text.Bytes()}, nil
	}
	return text.String(), nil
}

func (given templateData) build() (map[string]any, error) {
	data := map[string]any{}
	if len(given.Object) > 0 {
		object, err := given.object()
		if err != nil {
			return nil, err
		}
		data["Object"] = object
	}
	for name, raw := range map[string]json.RawMessage{"Cluster": given.Cluster, "LocalCluster": given.LocalCluster} {
		if len(raw) == 0 {
			continue
		}
		cluster := &Cluster{}
		if err := json.Unmarshal(raw, cluster); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		data[name] = cluster
	}
	return data, nil
}

func (given templateData) object() (any, error) {
	raw := given.Object
	plain := &unstructured.Unstructured{}
	if err := plain.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	if !given.Typed {
		return plain, nil
	}
	kinds := map[string]any{
		"configmap": &corev1.ConfigMap{}, "secret": &corev1.Secret{}, "service": &corev1.Service{},
		"namespace": &corev1.Namespace{}, "endpoints": &corev1.Endpoints{}, "pod": &corev1.Pod{},
	}
	object, known := kinds[strings.ToLower(plain.GetKind())]
	if !known || plain.GetAPIVersion() != "v1" {
		return nil, fmt.Errorf("the oracle has no Go type for this kind")
	}
	return object, json.Unmarshal(raw, object)
}
