package daemon_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/tiktoken-go/tokenizer"

	"mcp-server-suite/pkg/stage"
)

const goldenFile = "testdata/surface.golden.json"

// shippedSurface returns what the shipped daemon with every tool says in initialize and tools/list.
func shippedSurface(t *testing.T) (initialize, list json.RawMessage) {
	t.Helper()
	s := startAs(t, stage.Options{Env: []string{
		"MCP_SAFE_DATA_DIR=" + stage.Dir(t), "MCP_SQL_DSN=postgres://mcp_reader@127.0.0.1:1/app",
	}})
	initialize = s.handshake(newest)
	a, err := s.Call("tools/list", "")
	if err != nil || a.Error != nil {
		t.Fatalf("tools/list: %v, %+v", err, a.Error)
	}
	return initialize, a.Result
}

// What a model reads of this server is reviewed as a diff of the golden file; `make golden` rewrites it. The tokens are
// what the tools cost every conversation: the compact tools/list result in o200k_base.
func TestSurfaceGolden(t *testing.T) {
	t.Parallel()
	initialize, list := shippedSurface(t)
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := codec.Count(string(list))
	if err != nil {
		t.Fatal(err)
	}
	var opened struct{ Instructions string }
	if err := json.Unmarshal(initialize, &opened); err != nil {
		t.Fatal(err)
	}
	var now bytes.Buffer
	e := json.NewEncoder(&now)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(struct {
		Instructions string          `json:"instructions"`
		Tokens       int             `json:"tools_list_tokens_o200k_base"`
		List         json.RawMessage `json:"tools_list"`
	}{opened.Instructions, tokens, list})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(goldenFile, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	golden, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, now.Bytes()) {
		t.Errorf("the surface has changed (make golden rewrites %s):\n%s", goldenFile, now.Bytes())
	}
}

// published is a tool as clients get it.
type published struct {
	Name, Title, Description string
	InputSchema              map[string]any
	OutputSchema             map[string]any
	Annotations              map[string]bool
}

func publishedTools(t *testing.T) []published {
	t.Helper()
	_, list := shippedSurface(t)
	var tools struct{ Tools []published }
	d := json.NewDecoder(bytes.NewReader(list))
	d.DisallowUnknownFields() // above all ttlMs and cacheScope, which belong to a later revision
	if err := d.Decode(&tools); err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	return tools.Tools
}

// Strict clients refuse the whole server over one odd schema (anthropics/claude-code#44364, #88049 and others), and one
// drops every argument of certain names (#77248).
func TestSchemasAreWhatStrictClientsAccept(t *testing.T) {
	t.Parallel()
	tools := publishedTools(t)
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
		want := map[string]bool{"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
		for hint, value := range want {
			if got, given := tool.Annotations[hint]; !given || got != value {
				t.Errorf("%s: %s is %v", tool.Name, hint, got)
			}
		}
		if len(tool.Annotations) != len(want) || tool.Title == "" || tool.Description == "" {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
		for part, schema := range map[string]map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			where := tool.Name + " " + part
			if schema["type"] != "object" {
				t.Errorf("%s: type %v", where, schema["type"])
			}
			checkSchema(t, where, schema)
		}
		for name := range tool.InputSchema["properties"].(map[string]any) {
			if slices.Contains([]string{"session_id", "sessionId", "task", "_meta", "progressToken", "cursor"}, name) ||
				strings.HasPrefix(name, "_") {
				t.Errorf("%s: argument %s is a word of the transport", tool.Name, name)
			}
		}
	}
	if !slices.Equal(names, []string{"read_only_sql", "sandbox_fs_read", "system_metrics"}) {
		t.Errorf("the shipped tools are %v", names)
	}
}

// checkSchema allows the keywords that every client knows, in the shapes that every client expects.
func checkSchema(t *testing.T, where string, schema map[string]any) {
	t.Helper()
	isObject := schema["type"] == "object"
	for key, value := range schema {
		ok := false
		switch key {
		case "type":
			list, isList := value.([]any)
			_, isString := value.(string)
			ok = isString || isList && len(list) == 2 && list[1] == "null"
		case "description":
			ok = value != ""
		case "properties":
			properties, isMap := value.(map[string]any)
			ok = isMap && isObject
			for name, property := range properties {
				inner, isMap := property.(map[string]any)
				if !isMap {
					t.Errorf("%s.%s is %v", where, name, property)
					continue
				}
				checkSchema(t, where+"."+name, inner)
			}
		case "required":
			_, isList := value.([]any)
			ok = isList && isObject
		case "additionalProperties":
			ok = value == false
		case "items":
			inner, isMap := value.(map[string]any)
			if ok = isMap; ok {
				checkSchema(t, where+"[]", inner)
			}
		case "default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
			ok = value != nil
		}
		if !ok {
			t.Errorf("%s: %s is %v", where, key, value)
		}
	}
	if isObject {
		for _, key := range []string{"properties", "required", "additionalProperties"} {
			if _, given := schema[key]; !given {
				t.Errorf("%s has no %s", where, key)
			}
		}
	}
}

// validator compiles the published output schema of a tool, with another library than ours.
func validator(t *testing.T, tool string) *jsonschema.Resolved {
	t.Helper()
	for _, p := range publishedTools(t) {
		if p.Name != tool {
			continue
		}
		text, err := json.Marshal(p.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}
	t.Fatalf("no tool %s", tool)
	return nil
}

// fits requires that a result fits the schema, and that the schema is not one that everything fits.
func fits(t *testing.T, schema *jsonschema.Resolved, o outcome) {
	t.Helper()
	v := into[map[string]any](t, o)
	if err := schema.Validate(v); err != nil {
		t.Errorf("%v: %s", err, o.Structured)
	}
	v["one_more"] = true
	if schema.Validate(v) == nil {
		t.Error("the schema takes anything")
	}
	delete(v, "one_more")
	for name := range v {
		kept := v[name]
		v[name] = []any{map[string]any{}}
		if schema.Validate(v) == nil {
			t.Errorf("the schema takes anything for %s", name)
		}
		v[name] = kept
	}
}
