package landlock

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUDPIsAllowedFromTheABIThatTakesItAway(t *testing.T) {
	abi := needABI(t, 1)
	r, err := New(abi)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AllowUDP(0); err == nil || !strings.Contains(err.Error(), "port 0") {
		t.Errorf("port 0: %v", err)
	}
	if err := r.AllowUDP(53); err != nil {
		t.Errorf("ABI %d: %v", abi, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// Below ABI 10 nothing is asked of the kernel, so that a closed ruleset does as well.
	if err := r.AllowUDP(53); (err == nil) != (abi < 10) {
		t.Errorf("closed, ABI %d: %v", abi, err)
	}
	closed := Ruleset{fd: -1, handled: stated(KnownABI)}
	if err := closed.AllowUDP(53); !errors.Is(err, unix.EBADF) {
		t.Errorf("closed, ABI %d: %v", KnownABI, err)
	}
}
