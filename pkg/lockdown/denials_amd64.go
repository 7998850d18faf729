package lockdown

import "golang.org/x/sys/unix"

// archDenials are the calls that only amd64 has: the older forms without a folder descriptor, and the i/o ports.
func archDenials(sys func(name string, number uintptr, args ...uintptr) denial) []denial {
	noName := pointer(&empty[0])
	return []denial{
		sys("open to create", unix.SYS_OPEN, noName, unix.O_WRONLY|unix.O_CREAT, 0),
		sys("creat", unix.SYS_CREAT, noName, 0),
		sys("mkdir", unix.SYS_MKDIR, noName, 0),
		sys("rmdir", unix.SYS_RMDIR, noName),
		sys("unlink", unix.SYS_UNLINK, noName),
		sys("rename", unix.SYS_RENAME, noName, noName),
		sys("symlink", unix.SYS_SYMLINK, noName, noName),
		sys("link", unix.SYS_LINK, noName, noName),
		sys("mknod", unix.SYS_MKNOD, noName, 0, 0),
		sys("chmod", unix.SYS_CHMOD, noName, 0),
		sys("chown", unix.SYS_CHOWN, noName, 0, 0),
		sys("utimes", unix.SYS_UTIMES, noName, 0),
		sys("modify_ldt", unix.SYS_MODIFY_LDT, 0, 0, 0),
		sys("arch_prctl", unix.SYS_ARCH_PRCTL, 99, 0),
	}
}
