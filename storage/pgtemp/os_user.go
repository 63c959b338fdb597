package pgtemp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// An osUser is the user as which PostgreSQL's programs run. They refuse to run as root.
type osUser struct {
	uid, gid int  // owner of the cluster's files; -1 means the user of this process
	mapped   bool // run in a user namespace, in which root appears as an ordinary user
}

// userFor chooses the user for the cluster in dir and the programs in binDir. An ordinary
// user runs them as itself. Root uses a user namespace, and the files stay root's. Where the kernel
// or the container forbids user namespaces, root uses the system's user postgres.
func userFor(dir, binDir string) (osUser, error) {
	if os.Geteuid() != 0 {
		return osUser{uid: -1, gid: -1}, nil
	}

	// Only its owner can open a cluster, so an existing cluster keeps its kind of user.
	if info, err := os.Stat(filepath.Join(dir, "data", "PG_VERSION")); err == nil {
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 0 {
			return osUser{uid: int(owner.Uid), gid: int(owner.Gid)}, nil
		}
	}

	mapped := osUser{uid: -1, gid: -1, mapped: true}
	probe := exec.Command(filepath.Join(binDir, "postgres"), "--version")
	mapped.apply(probe)
	probeErr := probe.Run()
	if probeErr == nil {
		return mapped, nil
	}
	system, err := user.Lookup("postgres")
	if err != nil {
		return osUser{}, fmt.Errorf("PostgreSQL refuses to run as root, user namespaces are not permitted (%w) and "+
			"there is no user postgres: run as an ordinary user", probeErr)
	}
	uid, uidErr := strconv.Atoi(system.Uid)
	gid, gidErr := strconv.Atoi(system.Gid)
	return osUser{uid: uid, gid: gid}, errors.Join(uidErr, gidErr)
}

func (u osUser) apply(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	switch {
	case u.mapped:
		const inside = 1000 // any id but 0
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getegid(), Size: 1}}
	case u.uid >= 0:
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}
	}
}

// own makes the user the owner of dir and its content. It returns an error when the user may not enter a parent of dir.
// Below the system's temporary directory it opens the parents instead: they belong to tests.
func (u osUser) own(dir string) error {
	if u.uid < 0 {
		return nil
	}
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, u.uid, u.gid)
	}); err != nil {
		return fmt.Errorf("give %s to user postgres: %w", dir, err)
	}
	for parent := filepath.Dir(dir); parent != filepath.Dir(parent); parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		if mode&0o001 != 0 {
			continue
		}
		if !strings.HasPrefix(parent, os.TempDir()+"/") {
			return fmt.Errorf("PostgreSQL must run as user postgres here, which cannot enter %s: "+
				"choose another directory, or run as an ordinary user", parent)
		}
		if err := os.Chmod(parent, mode|0o001); err != nil {
			return err
		}
	}
	return nil
}

// servesCluster reports whether process pid is a PostgreSQL server on the cluster in dataDir. A
// server's working directory is its cluster.
func servesCluster(pid int, dataDir string) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || string(comm) != "postgres\n" {
		return false
	}
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(dataDir)
	return err == nil && cwd == real
}
