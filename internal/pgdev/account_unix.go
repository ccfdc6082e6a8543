//go:build unix

package pgdev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

const (
	// firstOrdinaryUser is where people's accounts begin on Linux (UID_MIN in login.defs); macOS begins at 501.
	firstOrdinaryUser = 501
	// maxPasswdLines bounds the reading of /etc/passwd.
	maxPasswdLines = 10_000
)

// account is the user that the cluster belongs to and runs under. The zero value is whoever runs this process.
type account struct {
	name       string
	credential *syscall.Credential
}

// accountFor chooses the account for the data folder. An ordinary user needs none. For root it is the owner of existing
// data, else "postgres", else "nobody", else the first ordinary user: each with an entry in passwd, as initdb and
// the server look themselves up.
func accountFor(data string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	if owner, ok := ownerOf(data); ok {
		return ownerAccount(owner, data)
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		if entry, err := user.Lookup(name); err == nil {
			return newAccount(entry)
		}
	}
	entry, err := firstUser()
	if err != nil {
		return account{}, fmt.Errorf("PostgreSQL refuses to run as root, and there is no other user to run it as: %w", err)
	}
	return newAccount(entry)
}

func ownerOf(path string) (uint32, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok || status.Uid == 0 { // root's own data could never be run: discardUnusable or initdb tells
		return 0, false
	}
	return status.Uid, true
}

func ownerAccount(owner uint32, data string) (account, error) {
	entry, err := user.LookupId(strconv.FormatUint(uint64(owner), 10))
	if err != nil {
		return account{}, fmt.Errorf("the owner of %s is no user of this system: %w", data, err)
	}
	return newAccount(entry)
}

func newAccount(entry *user.User) (account, error) {
	uid, err := strconv.ParseUint(entry.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", entry.Username, err)
	}
	gid, err := strconv.ParseUint(entry.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("group of user %s: %w", entry.Username, err)
	}
	return account{name: entry.Username, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func firstUser() (*user.User, error) {
	file, err := os.Open("/etc/passwd")
	if err != nil {
		return nil, fmt.Errorf("read the users: %w", err)
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	for line := 0; line < maxPasswdLines && scanner.Scan(); line++ {
		fields := strings.Split(scanner.Text(), ":") // name:password:uid:gid:…
		if len(fields) < 4 {
			continue
		}
		if uid, err := strconv.ParseUint(fields[2], 10, 32); err == nil && uid >= firstOrdinaryUser {
			return &user.User{Username: fields[0], Uid: fields[2], Gid: fields[3]}, nil
		}
	}
	return nil, errors.Join(errors.New("no ordinary user in /etc/passwd"), scanner.Err())
}

// command prepares a program to run under the account in the folder. It gets no environment but what programs need:
// PostgreSQL's own variables would redirect it, and paysaga's hold secrets that are none of the account's business.
func (a account) command(ctx context.Context, folder, program string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
	command.Env = []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	return command
}

// canEnter reports whether the account reaches the folder, by trying it: permissions of every parent, access lists and
// mounts all count.
func (a account) canEnter(ctx context.Context, folder string) bool {
	return a.credential == nil || a.command(ctx, folder, "/bin/sh", "-c", ":").Run() == nil
}

// own gives the file or folder to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, a.name, err)
	}
	return nil
}
