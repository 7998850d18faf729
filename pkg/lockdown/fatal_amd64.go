package lockdown

import "mcp-server-suite/pkg/int80"

// The two other ways into the kernel that amd64 has. A filter that looked at numbers only would be passed by both: call
// 20 is getpid for i386 and writev for amd64, and an x32 number has bit 30 set.

func foreign() []string { return []string{"i386", "x32"} }

func foreignCall(name string) func() {
	switch name {
	case "i386":
		return int80.GetPID
	case "x32":
		return func() { _ = rawCall(x32GetPID) }
	}
	return nil
}

const x32GetPID = 0x40000000 | 39
