// Renders a Helm chart with the template engine and the functions that Helm itself is made of: Go's
// text/template and Sprig. Of Helm's own, it has include, toYaml, required and fail, .Values, .Chart
// and .Release; a chart that uses more fails. Unlike Helm it refuses values that are not there.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run render.go CHART RELEASE NAMESPACE VALUES.yaml
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

func main() {
	chart, release, namespace, values := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	about := read(filepath.Join(chart, "Chart.yaml"))
	name := about["name"].(string)
	root := template.New(name).Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	for _, unsafe := range []string{"env", "expandenv", "now", "randAlphaNum", "uuidv4"} {
		delete(functions, unsafe)
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	functions["include"] = func(part string, data interface{}) (string, error) {
		var out strings.Builder
		err := root.ExecuteTemplate(&out, part, data)
		return out.String(), err
	}
	root.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	sort.Strings(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		template.Must(root.New(filepath.Base(file)).Parse(string(text)))
	}
	given := object{
		"Values":  merged(read(filepath.Join(chart, "values.yaml")), read(values)),
		"Chart":   object{"Name": name, "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": object{"Name": release, "Namespace": namespace, "Service": "Helm"},
	}
	for _, file := range files {
		if part := filepath.Base(file); strings.HasSuffix(part, ".yaml") {
			fmt.Printf("---\n# Source: %s/templates/%s\n", name, part)
			check(root.ExecuteTemplate(os.Stdout, part, given))
		}
	}
}

func read(path string) object {
	text, err := os.ReadFile(path)
	check(err)
	read := object{}
	check(yaml.UnmarshalStrict(text, &read))
	return read
}

// Values over defaults: objects are merged, null removes a default, as in Helm.
func merged(defaults object, given object) object {
	for key, value := range given {
		own, isObject := value.(object)
		default_, hasDefaults := defaults[key].(object)
		if value == nil {
			delete(defaults, key)
		} else if isObject && hasDefaults {
			defaults[key] = merged(default_, own)
		} else {
			defaults[key] = value
		}
	}
	return defaults
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
