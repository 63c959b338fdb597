package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// CheckExamples checks every example against its schema. It returns the number of examples and a
// fault for each example that does not fit.
func (d *Document) CheckExamples() (count int, faults []error) {
	d.eachObject("", d.root, func(pointer string, object map[string]any) {
		if object["schema"] == nil {
			for i := range exampleList(object) {
				count++
				if err := d.check(pointer, exampleList(object)[i]); err != nil {
					faults = append(faults, fmt.Errorf("%s/examples/%d: %w", pointer, i, err))
				}
			}
			return
		}

		var at []string
		if _, ok := object["example"]; ok {
			at = append(at, pointer+"/example")
		}
		for name := range d.object(pointer + "/examples") {
			at = append(at, d.resolve(pointer+"/examples"+token(name))+"/value")
		}

		for _, example := range at {
			count++
			if err := d.check(pointer+"/schema", d.value(example)); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", pointer, example, err))
			}
		}
	})
	return count, faults
}

// exampleList returns the examples of a schema. In a schema they are an array, elsewhere an object.
func exampleList(schema map[string]any) []any {
	list, _ := schema["examples"].([]any)
	return list
}

// eachObject calls do for every object in a value. It skips examples.
func (d *Document) eachObject(pointer string, value any, do func(string, map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		do(pointer, value)
		for name, member := range value {
			if !slices.Contains([]string{"example", "examples", "value"}, name) {
				d.eachObject(pointer+token(name), member, do)
			}
		}
	case []any:
		for i, element := range value {
			d.eachObject(pointer+"/"+strconv.Itoa(i), element, do)
		}
	}
}

// eventType returns the event's type in a body, "" when there is none.
func eventType(body []byte) string {
	var envelope struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body, &envelope) != nil {
		return ""
	}
	return envelope.Type
}

// ExamplesOf returns the number of examples for an operation's answer with a status.
func (d *Document) ExamplesOf(o Operation, status int) int {
	content := d.object(d.resolve(o.pointer()+"/responses/"+strconv.Itoa(status)) + "/content/application~1json")
	examples, _ := content["examples"].(map[string]any)
	if content["example"] != nil {
		return 1
	}
	return len(examples)
}
