package pgpolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Settings are the operator's additions and restrictions. Names are written as the parser knows them: in lower case,
// unless they are quoted in SQL; a part in double quotes may hold anything.
type Settings struct {
	// AllowFunctions are functions beyond the built-in ones, each "schema.name". A caller has to write them with the
	// schema. Whoever lists one answers for what it does.
	AllowFunctions []string
	// AllowTypes are types beyond the built-in ones, each "schema.name" or "name", to be written just so.
	AllowTypes []string
	// AllowRelations, if not empty, are the only relations that may be read (besides information_schema.tables and
	// information_schema.columns): "schema.*", "schema.table" or "schema.table(column, column)". The more exact entry
	// wins. Unqualified names are looked up along SearchPath and written with the schema.
	AllowRelations []string
	// SearchPath are the schemas in which the server will look up unqualified names, in order. pg_catalog comes first
	// by itself and is not named here.
	SearchPath []string
	// NoRecursive refuses WITH RECURSIVE.
	NoRecursive bool
	// CacheBytes bounds the approved statements that are kept, texts and results together; 0 keeps none.
	CacheBytes int
}

// SettingFault is one entry of the settings that makes no sense.
type SettingFault struct {
	Field string // of Settings
	Index int    // of the entry
	Err   error
}

func (f *SettingFault) Error() string { return fmt.Sprintf("entry %d: %v", f.Index+1, f.Err) }

func (f *SettingFault) Unwrap() error { return f.Err }

// qualified is a name with its schema.
type qualified struct{ schema, name string }

// rules are the settings as the walker needs them. They do not change.
type rules struct {
	shapes       shapes
	functions    map[string]bool // of pg_catalog
	notation     map[string]bool // not after a dot, see columnNotation
	types        map[string]bool // of pg_catalog
	ownFunctions map[qualified]bool
	ownNames     map[string]bool // names of ownFunctions
	ownTypes     map[string]bool
	listed       bool // whether there is a list of relations
	relations    map[qualified][]string
	schemas      map[string]bool // all relations of these
	searchPath   []string
	noRecursive  bool
}

func (s Settings) rules() (*rules, error) {
	all, err := newShapes()
	if err != nil {
		return nil, err
	}
	r := &rules{
		shapes: all, functions: words(functionsText), notation: words(notationText), types: words(builtinTypes),
		ownFunctions: map[qualified]bool{}, ownNames: map[string]bool{}, ownTypes: map[string]bool{},
		relations: map[qualified][]string{}, schemas: map[string]bool{},
		listed: len(s.AllowRelations) > 0, searchPath: slices.Clone(s.SearchPath), noRecursive: s.NoRecursive,
	}
	var faults []error
	for i, text := range s.AllowFunctions {
		if err := r.allowFunction(text); err != nil {
			faults = append(faults, &SettingFault{"AllowFunctions", i, err})
		}
	}
	for i, text := range s.AllowTypes {
		name, rest, err := readName(text)
		if err == nil && (rest != "" || len(name) > 2) {
			err = errors.New("it is not schema.name or name")
		}
		if err == nil && len(name) == 2 && strings.HasPrefix(name[0], "pg_") {
			err = errors.New("the system's types cannot be added")
		}
		if err != nil {
			faults = append(faults, &SettingFault{"AllowTypes", i, err})
			continue
		}
		r.ownTypes[strings.Join(name, ".")] = true
	}
	for i, text := range s.AllowRelations {
		if err := r.allowRelation(text); err != nil {
			faults = append(faults, &SettingFault{"AllowRelations", i, err})
		}
	}
	for i, schema := range s.SearchPath {
		if schema == "" || isSystemSchema(schema) {
			faults = append(faults, &SettingFault{"SearchPath", i, errors.New("it is empty or the system's own")})
		}
	}
	if s.CacheBytes < 0 {
		faults = append(faults, errors.New("read cache bound: it is negative"))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return r, nil
}

func isSystemSchema(name string) bool {
	return strings.HasPrefix(name, "pg_") || name == informationSchema
}

func (r *rules) allowFunction(text string) error {
	name, rest, err := readName(text)
	switch {
	case err != nil:
		return err
	case rest != "" || len(name) != 2:
		return errors.New("it is not schema.name")
	case isSystemSchema(name[0]):
		return errors.New("the system's functions cannot be added")
	}
	r.ownFunctions[qualified{name[0], name[1]}] = true
	r.ownNames[name[1]] = true
	return nil
}

func (r *rules) allowRelation(text string) error {
	text = strings.TrimSpace(text)
	if schema, ok := strings.CutSuffix(text, ".*"); ok {
		name, rest, err := readName(schema)
		switch {
		case err != nil:
			return err
		case rest != "" || len(name) != 1:
			return errors.New("it is not schema.*")
		case isSystemSchema(name[0]):
			return errors.New("the system's relations cannot be added")
		case r.schemas[name[0]]:
			return errors.New("it stands there twice")
		}
		r.schemas[name[0]] = true
		return nil
	}
	name, rest, err := readName(text)
	switch {
	case err != nil:
		return err
	case len(name) != 2:
		return errors.New("it is not schema.*, schema.table or schema.table(column, column)")
	case isSystemSchema(name[0]) || strings.HasPrefix(name[1], "pg_"):
		return errors.New("the system's relations cannot be added")
	}
	var columns []string
	if rest = strings.TrimSpace(rest); rest != "" {
		if columns, err = readColumns(rest); err != nil {
			return err
		}
	}
	key := qualified{name[0], name[1]}
	if _, twice := r.relations[key]; twice {
		return errors.New("it stands there twice")
	}
	r.relations[key] = columns
	return nil
}

// readColumns reads "(column, column)".
func readColumns(text string) ([]string, error) {
	inner, ok := strings.CutPrefix(text, "(")
	if !ok {
		return nil, errors.New("behind the name there may be columns in brackets")
	}
	var columns []string
	for {
		name, rest, err := readName(inner)
		if err != nil {
			return nil, err
		}
		if len(name) != 1 || slices.Contains(columns, name[0]) {
			return nil, errors.New("a column is a single name and stands there once")
		}
		columns = append(columns, name[0])
		rest = strings.TrimSpace(rest)
		switch {
		case strings.HasPrefix(rest, ","):
			inner = rest[1:]
		case rest == ")":
			return columns, nil
		default:
			return nil, errors.New("the list of columns is not closed")
		}
	}
}

// maxNameBytes is PostgreSQL's bound (NAMEDATALEN - 1); longer ones would be cut by the parser and never match.
const maxNameBytes = 63

// readName reads a.b, each part plain or in double quotes, and gives what follows.
func readName(text string) (name []string, rest string, err error) {
	text = strings.TrimLeft(text, " \t")
	for {
		var part string
		if strings.HasPrefix(text, `"`) {
			end := skipQuoted(text, 0, '"', false)
			if end < 2 || text[end-1] != '"' {
				return nil, "", errors.New("a quote is not closed")
			}
			part, text = strings.ReplaceAll(text[1:end-1], `""`, `"`), text[end:]
		} else {
			end := 0
			for end < len(text) && (isWordByte(text[end]) || end > 0 && text[end] == '$') {
				end++
			}
			part, text = text[:end], text[end:]
			if part != strings.ToLower(part) || part != "" && part[0]-'0' <= 9 {
				return nil, "", errors.New("a name that is not in lower case, or begins with a digit, needs double quotes")
			}
		}
		if part == "" || len(part) > maxNameBytes || strings.ContainsRune(part, 0) {
			return nil, "", fmt.Errorf("a name is empty or longer than %d bytes", maxNameBytes)
		}
		name = append(name, part)
		if !strings.HasPrefix(text, ".") {
			return name, text, nil
		}
		text = text[1:]
	}
}
