package envelope

import (
	"slices"

	"mcp-server-suite/pkg/strictjson"
)

// Initialize is what the wire needs of the params of initialize (MCP, lifecycle).
type Initialize struct {
	ProtocolVersion string
	ClientName      string
	ClientVersion   string
}

// Call is the envelope of tools/call (seed 000): the tool's name and the raw object of arguments, nil if absent.
// Arguments aliases the line.
type Call struct {
	Name      string
	Arguments []byte
}

// params steps through an object and hands each member whose name is in known to take; take reports whether the value
// has the right shape. It returns the name of the member that is wrong, "" if none is: of wrong shape, a case variant
// of a known name, or, where strict, not known at all ("params"). _meta is known everywhere: an object, not looked into
// (MCP, general fields).
func params(raw []byte, strict bool, known []string, take func(name string, value []byte) bool) string {
	for c := strictjson.Open(raw); c.Next(); {
		key, _ := strictjson.String(c.Key())
		switch {
		case key == "_meta":
			if !strictjson.IsObject(c.Value()) {
				return "_meta"
			}
		case slices.Contains(known, key):
			if !take(key, c.Value()) {
				return key
			}
		case strict, strictjson.CaseVariant(key, "_meta"), strictjson.CaseVariant(key, known...):
			return "params"
		}
	}
	return ""
}

var initializeNames = []string{"protocolVersion", "capabilities", "clientInfo"}

// ParseInitialize checks the params of initialize: a version, an object of capabilities and a clientInfo with name and
// version, all required by the schema of every revision. It returns the name of the faulty member, "" if none is.
func ParseInitialize(raw []byte) (in Initialize, faulty string) {
	var version, capabilities, info bool
	faulty = params(raw, false, initializeNames, func(name string, value []byte) (ok bool) {
		switch name {
		case "protocolVersion":
			in.ProtocolVersion, version = strictjson.String(value)
			return version
		case "capabilities":
			capabilities = strictjson.IsObject(value)
			return capabilities
		default:
			info = clientInfo(value, &in)
			return info
		}
	})
	switch {
	case faulty != "":
		return Initialize{}, faulty
	case !version:
		return Initialize{}, "protocolVersion"
	case !capabilities:
		return Initialize{}, "capabilities"
	case !info:
		return Initialize{}, "clientInfo"
	}
	return in, ""
}

func clientInfo(raw []byte, in *Initialize) bool {
	if !strictjson.IsObject(raw) {
		return false
	}
	var name, version bool
	for c := strictjson.Open(raw); c.Next(); {
		key, _ := strictjson.String(c.Key())
		switch {
		case key == "name":
			in.ClientName, name = strictjson.String(c.Value())
		case key == "version":
			in.ClientVersion, version = strictjson.String(c.Value())
		case strictjson.CaseVariant(key, "name", "version"):
			return false
		}
	}
	return name && version
}

var callNames = []string{"name", "arguments", "task"}

// ParseCall checks the params of tools/call. Unknown members are refused (seed 000: strict envelope); task is known, an
// object, and not looked into, because a server that does not declare task support must treat the call as an ordinary
// one (MCP 2025-11-25, tasks). It returns the name of the faulty member, "" if none is.
func ParseCall(raw []byte) (call Call, faulty string) {
	if raw == nil {
		return Call{}, "params"
	}
	named := false
	faulty = params(raw, true, callNames, func(name string, value []byte) bool {
		switch name {
		case "name":
			call.Name, named = strictjson.String(value)
			return named
		case "arguments":
			call.Arguments = value
		}
		return strictjson.IsObject(value)
	})
	if faulty == "" && !named {
		faulty = "name"
	}
	if faulty != "" {
		return Call{}, faulty
	}
	return call, ""
}

// ParseCancelled returns the key (ID.Key) of the request that notifications/cancelled names; ok is false for a
// malformed notification, which is ignored like any other (JSON-RPC 2.0: no answer to a notification).
func ParseCancelled(raw []byte) (key string, ok bool) {
	faulty := params(raw, false, []string{"requestId", "reason"}, func(name string, value []byte) bool {
		if name == "reason" {
			return true
		}
		if !strictjson.IsString(value) && !strictjson.IsInteger(value) {
			return false
		}
		key, ok = ID{value}.Key(), true
		return true
	})
	if faulty != "" {
		return "", false
	}
	return key, ok
}

// ParseList checks the params of a list request. A cursor is refused: every list of this server is one page, so it has
// never given one out. It returns the name of the faulty member, "" if none is.
func ParseList(raw []byte) (faulty string) {
	return params(raw, false, []string{"cursor"}, func(string, []byte) bool { return false })
}

// ParseMeta checks params of which only _meta matters, as of ping. It returns the name of the faulty member or "".
func ParseMeta(raw []byte) (faulty string) { return params(raw, false, nil, nil) }
